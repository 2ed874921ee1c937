"""A web handler that asks its database only when it must, and for a missing user only once."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

import redis

filters = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))
database = {"alice": "1 Main Street"}                      # stands for yours
filters.execute_command("AF.INSERT", "users", "CAPACITY", 1_000_000, "REMOTE", "memory", "ITEMS", *database)


def address_of(user):
    if not filters.execute_command("AF.EXISTS", "users", user):
        return None                                        # definitely absent: no read
    address = database.get(user)                           # the slow read
    if address is None:
        filters.execute_command("AF.ADAPT", "users", user)  # a wasted read, and the last for this user
    return address


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        address = address_of(self.path.strip("/"))
        self.send_response(200 if address else 404)
        self.end_headers()
        self.wfile.write((address or "no such user").encode())


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()

#!/usr/bin/env python3
"""Takes pictures of the live page of a running demonstration.

    python3 scripts/screenshots.py [BINARY]

Light and dark, on a desktop and on a phone, into target/screenshots; the upper part of the two of
the desktop into docs/figures. It builds the release binary unless one is named, attacks for WARM seconds before
the first picture, and talks to Chromium over a pipe, with nothing but Python's own library.
"""

import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "target" / "screenshots"
FIGURES = ROOT / "docs" / "figures"

# Two attacks, the pause between them and the next one can be seen.
WARM = 125

# Name, width in CSS pixels, device pixels for each of them.
DEVICES = [("page", 1040, 1), ("phone", 390, 2)]
SCHEMES = ["light", "dark"]

# GitHub and crates.io load pictures with the page.
MOST_BYTES = 150_000

# Where a picture of the whole page ends, and one of its upper part: below the first chart.
WHOLE = "document.documentElement.scrollHeight"
UPPER = "Math.ceil(document.getElementById('fp-chart').parentElement.getBoundingClientRect().bottom) + 16"

# The box shows a false positive, then the same key again.
CLICKS = [
    "document.getElementById('try-mistake').click()",
    "document.getElementById('try-form').requestSubmit()",
]


class Chromium:
    """A browser, spoken to in the DevTools protocol: JSON, each message ended by a zero byte."""

    def __init__(self, profile):
        ours, theirs = os.pipe(), os.pipe()
        # Chromium reads from 3 and writes to 4, so neither of these may be one of them.
        reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (ours[0], theirs[1]))

        def place():
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        flags += ["--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(
            ["chromium", *flags], preexec_fn=place, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for end in (ours[0], theirs[1], reads, writes):
            os.close(end)
        self.to, self.back = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self.sent, self.session, self.rest = 0, None, b""

    def call(self, method, **params):
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while True:
            answer = self.message()
            if answer.get("id") == self.sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def message(self):
        while b"\0" not in self.rest:
            more = self.back.read1(1 << 20)
            if not more:
                raise RuntimeError("chromium has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, url, width, scale, scheme):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=scale, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        # The page asks for numbers once a second.
        time.sleep(2)
        return target

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression)["result"].get("value")

    def picture(self, height):
        width = self.evaluate("document.documentElement.scrollWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        return base64.b64decode(data)

    def close(self, target):
        self.session = None
        self.call("Target.closeTarget", targetId=target)

    def stop(self):
        self.call("Browser.close")
        self.process.wait(timeout=30)


def demonstration(binary):
    """A demonstration on free ports, and the address of its page."""
    command = [binary, "serve", "--demo", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = server.stdout.readline()
    if not line.startswith("Open "):
        raise SystemExit(f"the demonstration did not start: {line!r}")
    return server, line.split()[1]


def save(path, picture):
    path.write_bytes(picture)
    print(f"{path.relative_to(ROOT)}: {len(picture):,} bytes")


def main():
    if len(sys.argv) > 1:
        binary = sys.argv[1]
    else:
        build = ["cargo", "build", "--release", "-p", "twiceshy-cli"]
        subprocess.run(build, cwd=ROOT, check=True)
        binary = str(ROOT / "target" / "release" / "twiceshy")
    if shutil.which("chromium") is None:
        raise SystemExit("chromium is missing; install it with scripts/servers.sh")
    PICTURES.mkdir(parents=True, exist_ok=True)
    server, url = demonstration(binary)
    with tempfile.TemporaryDirectory() as profile:
        try:
            browser = Chromium(profile)
            time.sleep(WARM)
            for name, width, scale in DEVICES:
                for scheme in SCHEMES:
                    target = browser.open(url, width, scale, scheme)
                    for click in CLICKS:
                        browser.evaluate(click)
                        time.sleep(0.5)
                    save(PICTURES / f"{name}-{scheme}.png", browser.picture(browser.evaluate(WHOLE)))
                    if name == "page":
                        upper = browser.picture(browser.evaluate(UPPER))
                        if len(upper) >= MOST_BYTES:
                            raise SystemExit(f"{len(upper):,} bytes are not below {MOST_BYTES:,}")
                        save(FIGURES / f"{name}-{scheme}.png", upper)
                    browser.close(target)
            browser.stop()
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()

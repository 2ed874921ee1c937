//! Requests and responses of HTTP, as bytes.

/// What a client asks for.
pub(crate) struct Request<'a> {
    pub(crate) path: &'a str,
    /// What follows the question mark.
    pub(crate) query: &'a str,
    pub(crate) is_head: bool,
    headers: &'a str,
}

impl Request<'_> {
    /// The value of a header, the first of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.split("\r\n").find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The bytes of a field of the query, as [RFC 3986, section
    /// 2.1](https://www.rfc-editor.org/rfc/rfc3986#section-2.1) encodes them; `None` without the
    /// field, or if it is encoded wrongly.
    pub(crate) fn field(&self, name: &str) -> Option<Vec<u8>> {
        let fields = self.query.split('&').filter_map(|field| field.split_once('='));
        let (_, value) = fields.into_iter().find(|(found, _)| *found == name)?;
        let mut rest = value.bytes();
        let mut decoded = Vec::with_capacity(value.len());
        while let Some(byte) = rest.next() {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            decoded.push(match byte {
                b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
                byte => byte,
            });
        }
        Some(decoded)
    }
}

/// What it is told.
pub(crate) struct Response {
    pub(crate) status: &'static str,
    /// With its line end, or empty.
    pub(crate) header: &'static str,
    pub(crate) media_type: &'static str,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn ok(media_type: &'static str, body: impl Into<String>) -> Self {
        Response { status: "200 OK", header: "", media_type, body: body.into() }
    }

    /// An error in words.
    pub(crate) fn error(status: &'static str, text: &str) -> Self {
        let media_type = "text/plain; charset=utf-8";
        Response { status, header: "", media_type, body: format!("{text}\n") }
    }

    /// Nothing from elsewhere is ever loaded, run or sent to.
    pub(crate) fn bytes(&self, is_head: bool) -> Vec<u8> {
        let Response { status, header, media_type, body } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\n\
             Content-Type: {media_type}\r\n\
             Content-Length: {}\r\n\
             Connection: close\r\n\
             Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\n\
             Referrer-Policy: no-referrer\r\n\
             Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
             connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'\r\n\
             {header}\r\n",
            body.len(),
        );
        let body = if is_head { "" } else { body };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// Where the head of a request ends, without its empty line, if that has come. `looked` is
/// how far it was looked for before, and then how far it has been.
pub(crate) fn end(bytes: &[u8], looked: &mut usize) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let found = bytes[*looked..].windows(END.len()).position(|part| part == END);
    let end = found.map(|found| *looked + found);
    // The end may come in two parts.
    *looked = bytes.len().saturating_sub(END.len() - 1).max(*looked);
    end
}

/// A request, without its last, empty line.
pub(crate) fn parse(head: &[u8]) -> Result<Request<'_>, Response> {
    let bad = |reason| Response::error("400 Bad Request", reason);
    let head = std::str::from_utf8(head).map_err(|_| bad("a request is text"))?;
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let parts: Vec<&str> = first.split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = parts[..] else {
        return Err(bad("expected: GET /path HTTP/1.1"));
    };
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad("a path begins with / and is plain text"));
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => {
            let mut response = Response::error("405 Method Not Allowed", "only GET and HEAD");
            response.header = "Allow: GET, HEAD\r\n";
            return Err(response);
        }
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Request { path, query, is_head, headers })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> Result<(String, bool), &'static str> {
        match parse(head.as_bytes()) {
            Ok(request) => Ok((request.path.to_string(), request.is_head)),
            Err(response) => Err(response.status),
        }
    }

    #[test]
    fn requests_as_browsers_send_them() {
        assert_eq!(status("GET / HTTP/1.1\r\nHost: a"), Ok(("/".into(), false)));
        assert_eq!(status("GET /a?b=c HTTP/1.0"), Ok(("/a".into(), false)));
        assert_eq!(status("HEAD /a HTTP/1.1"), Ok(("/a".into(), true)));
        let request = parse(b"GET / HTTP/1.1\r\nhOsT:  a:1 \r\nB: c").ok().expect("a request");
        assert_eq!((request.header("Host"), request.header("b")), (Some("a:1"), Some("c")));
        assert_eq!(request.header("c"), None);
    }

    #[test]
    fn fields_of_the_query_are_decoded() {
        let field = |target: &str, name| {
            let head = format!("GET {target} HTTP/1.1");
            parse(head.as_bytes()).ok().expect("a request").field(name)
        };
        let bytes = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(field("/a?key=user%3A42", "key"), bytes("user:42"));
        assert_eq!(field("/a?x=1&key=b=c+d&key=e", "key"), bytes("b=c+d"));
        assert_eq!(field("/a?key=%ff%FE%00", "key"), Some(vec![0xff, 0xfe, 0]));
        assert_eq!(field("/a?key=", "key"), bytes(""));
        for target in ["/a", "/a?", "/a?key", "/a?Key=b", "/a?key=%", "/a?key=%4", "/a?key=%+4"] {
            assert_eq!(field(target, "key"), None, "{target}");
        }
    }

    #[test]
    fn all_else_is_refused() {
        for head in [
            "",
            " ",
            "GET /",
            "GET / HTTP/2",
            "GET  / HTTP/1.1",
            "GET a HTTP/1.1",
            "\0",
            // Found by the fuzzer.
            "GET /a\rb HTTP/1.1",
        ] {
            assert_eq!(status(head), Err("400 Bad Request"), "{head:?}");
        }
        assert!(parse(b"GET /\xff HTTP/1.1").is_err());
        for head in ["POST / HTTP/1.1", "get / HTTP/1.1", "DELETE /a HTTP/1.1"] {
            assert_eq!(status(head), Err("405 Method Not Allowed"), "{head:?}");
        }
    }
}

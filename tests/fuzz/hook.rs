//! Requests to the hook: no bytes crash the readers of a request's head, path, body and signature.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The HTTP sources of the master, of which this test uses a part.
#[allow(dead_code, unused_imports)]
#[path = "."]
mod http {
    #[path = "../../master-lite/src/http/head.rs"]
    mod head;
    #[path = "../../master-lite/src/http/quoted.rs"]
    pub(crate) mod quoted;
    #[path = "../../master-lite/src/http/refusal.rs"]
    mod refusal;

    pub(crate) use head::Head;
    pub(crate) use refusal::Refusal;

    pub(crate) fn parse(bytes: &[u8]) -> Option<Head> {
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut lines);
        request.parse(bytes).ok()?;
        let request_line = hyper::Request::builder()
            .method(request.method?)
            .uri(request.path?);
        let lines = request.headers.iter();
        let whole = lines.fold(request_line, |whole, line| whole.header(line.name, line.value));
        let (parts, ()) = whole.body(()).ok()?.into_parts();
        Some(Head::new(&parts, [127, 0, 0, 1].into()))
    }
}

/// The sources of the hook, of which this test uses a part.
#[allow(dead_code)]
#[path = "."]
mod hook {
    #[path = "../../master-lite/src/hook/body.rs"]
    mod body;
    #[path = "../../master-lite/src/hook/path.rs"]
    mod path;
    #[path = "../../master-lite/src/hook/signature.rs"]
    mod signature;

    use super::http;

    pub(crate) fn request(head: &[u8], body: &[u8]) {
        let Some(head) = http::parse(head) else {
            return;
        };
        if let Ok(tag) = path::tag(head.path()) {
            assert!(tag.starts_with(path::BASE) && !tag.contains(['\n', '\0']));
        }
        let secrets = [b"secret".to_vec()];
        let signatures = signature::Signatures::new(&secrets, 300);
        if let Ok(shown) = signature::RequestSignature::from_head(&head) {
            assert!(
                signatures
                    .check(&shown, &head, body, 1_800_000_000)
                    .is_err()
            );
        }
        let _ = body::read(head.header("Content-Type"), body);
    }
}

/// The part of the master's store that `signature.rs` needs to remember signatures.
mod store {
    #[derive(Default)]
    pub(crate) struct Retention {
        pub(crate) events_seconds: u64,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = bytes.split_at(end.map_or(bytes.len(), |end| end + 4));
    hook::request(head, body);
});

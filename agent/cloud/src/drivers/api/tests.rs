use super::*;
use crate::testing::{Cloud, Home};

/// The secret of the tests.
const TOKEN: &str = "s3cr3t-0123456789-token";

fn said(answer: &Value) -> Option<Said> {
    let text = field(answer, "message");
    (!text.is_empty()).then(|| (field(answer, "id"), text))
}

fn api(root: &str) -> Api {
    let settings = Map::new().with("key", TOKEN).with("api_root", root);
    let base = base("test", &settings, "api_root", "").unwrap();
    let token = secret("test", &settings, "key").unwrap();
    Api::new("test", base, bearer(&token), said)
}

/// Returns the fault of a `POST` that gets this answer.
fn fault(status: &str, body: &str) -> Fault {
    let cloud = Cloud::start(&[("POST /x", status, body)]);
    let made = api(&cloud.url).post(&Home::new().cx(), "/x", Map::new().with("a", 1));
    let fault = made.unwrap_err();
    assert!(!fault.to_string().contains(TOKEN), "{fault}");
    fault
}

#[test]
fn a_request_has_the_token_and_json() {
    let cloud = Cloud::start(&[("POST /x%2Fy", "201 Created", "{\"a\": [1]}")]);
    let body = Map::new().with("name", "web1");
    let answer = api(&cloud.url).post(&Home::new().cx(), &path(&["x/y"]), body.clone());
    assert_eq!(answer.unwrap().traverse("a:0", ":"), Some(&1.into()));
    let asked = cloud.asked().remove(0);
    assert!(
        asked.has("authorization", &format!("Bearer {TOKEN}")),
        "{asked:?}"
    );
    assert!(asked.has("content-type", "application/json"), "{asked:?}");
    assert_eq!(asked.json(), body.into());
}

#[test]
fn a_refusal_has_the_clouds_own_text() {
    let error = "{\"id\": \"quota\", \"message\": \"no more droplets\\u001b[2J\"}";
    for status in [
        "400 Bad Request",
        "403 Forbidden",
        "404 Not Found",
        "409 Conflict",
    ] {
        let fault = fault(status, error);
        assert!(
            matches!(fault, Fault::Refused { .. }),
            "{status}: {fault:?}"
        );
        assert_eq!(fault.to_string(), "test: quota: no more droplets[2J");
        assert_eq!(fault.code(), "quota");
    }
    let other = fault("422 Unprocessable Entity", "{\"errors\": [\"name\"]}");
    let text = "test: HTTP 422 Unprocessable Entity: {\"errors\": [\"name\"]}";
    assert_eq!(other.to_string(), text);
    assert!(matches!(other, Fault::Refused { .. }), "{other:?}");
}

#[test]
fn wrong_credentials_are_a_refusal_in_any_format() {
    for body in ["", "no ticket", "{\"message\": \"no ticket\"}"] {
        let fault = fault("401 Unauthorized", body);
        assert!(matches!(fault, Fault::Refused { .. }), "{fault:?}");
    }
}

#[test]
fn a_cloud_that_wants_fewer_requests_says_when() {
    let slow = "{\"id\": \"too_many\", \"message\": \"slow down\"}";
    let url = ::tests::server::start(move |_, _| {
        ::tests::server::text("429 Too Many Requests", "Retry-After: 7\r\n", slow)
    });
    let fault = api(&url).get(&Home::new().cx(), "/x").unwrap_err();
    assert_eq!(fault.to_string(), "test: too_many: slow down");
    let Fault::Throttled { after, .. } = fault else {
        panic!("{fault:?}");
    };
    assert_eq!(after, Some(Duration::from_secs(7)));
    let url = ::tests::server::start(|_, _| {
        ::tests::server::text(
            "503 Service Unavailable",
            "Retry-After: 9999999\r\n",
            "<html>",
        )
    });
    let fault = api(&url).get(&Home::new().cx(), "/x").unwrap_err();
    let Fault::Throttled { after, .. } = fault else {
        panic!("{fault:?}");
    };
    assert_eq!(after, Some(Duration::from_secs(600)));
}

#[test]
fn html_and_json_that_is_cut_off_may_have_been_carried_out() {
    for (status, body) in [
        ("200 OK", "<html>sign in</html>"),
        ("201 Created", "{\"server\": {\"id\": 1"),
        ("404 Not Found", "<html>nginx</html>"),
        ("502 Bad Gateway", "<html>bad gateway</html>"),
        ("504 Gateway Timeout", ""),
        ("408 Request Timeout", "{\"message\": \"too slow\"}"),
        ("500 Internal Server Error", "{\"message\": \"a bug\"}"),
    ] {
        let fault = fault(status, body);
        assert!(
            matches!(fault, Fault::Unanswered { .. }),
            "{status}: {fault:?}"
        );
    }
    let html = fault("200 OK", "<html>sign in</html>").to_string();
    assert_eq!(
        html,
        "test: HTTP 200 OK, and the answer is no JSON: <html>sign in</html>"
    );
}

#[test]
fn a_cloud_that_does_not_answer_may_have_carried_it_out() {
    let nowhere = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let fault = api(&nowhere).get(&Home::new().cx(), "/x").unwrap_err();
    assert!(matches!(fault, Fault::Unanswered { .. }), "{fault:?}");
    // An answer that promises more than it has.
    let url = ::tests::server::start(|_, _| {
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{}".to_owned()
    });
    let fault = api(&url).get(&Home::new().cx(), "/x").unwrap_err();
    assert!(matches!(fault, Fault::Unanswered { .. }), "{fault:?}");
}

#[test]
fn a_cloud_that_is_too_slow_may_have_carried_it_out() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let url = ::tests::server::start(move |_, _| {
        // The test ends before this server answers.
        ended.recv().unwrap_err();
        String::new()
    });
    let cx = Home::new().cx_with(Map::new().with("http_request_timeout", 1));
    let fault = api(&url).post(&cx, "/x", Map::new()).unwrap_err();
    assert!(matches!(fault, Fault::Unanswered { .. }), "{fault:?}");
    drop(end);
}

#[test]
fn a_redirect_is_not_followed() {
    let other = Cloud::start(&[("GET /x", "200 OK", "{}")]);
    let headers = format!("Location: {}/x\r\n", other.url);
    let url = ::tests::server::start(move |_, _| {
        ::tests::server::text("302 Found", &headers, "<html>moved</html>")
    });
    let fault = api(&url).get(&Home::new().cx(), "/x").unwrap_err();
    assert!(matches!(fault, Fault::Refused { .. }), "{fault:?}");
    assert!(
        fault.to_string().contains("a redirect is not followed"),
        "{fault}"
    );
    assert!(other.lines().is_empty());
}

#[test]
fn what_is_not_there_is_deleted() {
    let cloud = Cloud::start(&[
        (
            "DELETE /gone",
            "404 Not Found",
            "{\"message\": \"no such server\"}",
        ),
        ("DELETE /here", "204 No Content", ""),
        ("DELETE /html", "404 Not Found", "<html>"),
    ]);
    let (api, home) = (api(&cloud.url), Home::new());
    assert_eq!(api.delete(&home.cx(), "/gone"), Ok(None));
    assert_eq!(api.delete(&home.cx(), "/here"), Ok(Some(Value::Null)));
    assert!(api.delete(&home.cx(), "/html").is_err());
}

#[test]
fn a_list_without_its_items_is_an_error_and_not_empty() {
    let cloud = Cloud::start(&[
        ("GET /a?n=1", "200 OK", "{}"),
        ("GET /b?n=1", "200 OK", "{\"b\": {}}"),
        ("GET /c?n=1", "200 OK", "[]"),
    ]);
    for (path, list) in [("/a", "a"), ("/b", "b"), ("/c", "c")] {
        let pages = api(&cloud.url).pages(&Home::new().cx(), (path, list, "n=1"), |_, _| None);
        let text = pages.unwrap_err().to_string();
        assert_eq!(text, format!("test: the answer of {path} has no {list}"));
    }
}

#[test]
fn a_list_without_end_is_an_error() {
    let cloud = Cloud::start(&[("GET /a?n=1", "200 OK", "{\"a\": []}")]);
    let next = |_: &Value, _: usize| Some("n=1".to_owned());
    let pages = api(&cloud.url).pages(&Home::new().cx(), ("/a", "a", "n=1"), next);
    let text = pages.unwrap_err().to_string();
    assert!(text.contains("/a has more than"), "{text}");
    assert_eq!(cloud.lines().len(), PAGES_MAX);
}

#[test]
fn settings_that_cannot_be_used_are_named_without_the_secret() {
    let settings = Map::new()
        .with("key", "abc\ndef-0123")
        .with("url", "ftp://x");
    let error = secret("test", &settings, "key").unwrap_err().to_string();
    assert!(
        error.contains("`key` of the provider") && !error.contains("abc"),
        "{error}"
    );
    let error = secret("test", &settings, "token").unwrap_err().to_string();
    assert_eq!(error, "test: the provider has no `token`");
    let error = base("test", &settings, "url", "").unwrap_err().to_string();
    assert!(error.contains("expected https://HOST/PATH"), "{error}");
}

#[test]
fn work_is_waited_for_and_a_refusal_ends_the_wait() {
    let asked = std::cell::Cell::new(0);
    let done = until(("test", "the clone"), Duration::from_secs(60), || {
        asked.set(asked.get() + 1);
        match asked.get() {
            1 => Err(Fault::unanswered("test", "no route")),
            _ => Ok(Some(7)),
        }
    });
    assert_eq!(done, Ok(7));
    let refused = until::<()>(("test", "the clone"), Duration::from_secs(60), || {
        Err(Fault::refused("test", "", "no space left"))
    });
    assert_eq!(refused.unwrap_err().to_string(), "test: no space left");
    let late = until::<()>(("test", "the clone"), Duration::ZERO, || Ok(None));
    assert_eq!(
        late.unwrap_err().to_string(),
        "test: the clone has not ended after 0 s"
    );
}

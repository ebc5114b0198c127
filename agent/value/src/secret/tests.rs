use super::*;
use crate::json::{self, Layout};
use crate::python;

fn needles(secrets: &[&str]) -> Needles {
    let mut needles = Needles::default();
    secrets.iter().for_each(|secret| needles.add(secret));
    needles
}

fn masked(secrets: &[&str], text: &str) -> String {
    needles(secrets)
        .masked(text)
        .unwrap_or_else(|| text.to_owned())
}

#[test]
fn a_secret_is_covered_wherever_it_stands() {
    for (secret, text, want) in [
        ("hunter22", "hunter22", "‹secret›"),
        (
            "hunter22",
            "postgres://app:hunter22@db/x",
            "postgres://app:‹secret›@db/x",
        ),
        ("hunter22", "hunter2", "hunter2"),
        ("pässwörd", "x pässwörd y", "x ‹secret› y"),
        ("pässwörd", r#""p\u00e4ssw\u00f6rd""#, r#""‹secret›""#),
        ("pässwörd", r#""p\xE4ssw\xF6rd""#, r#""‹secret›""#),
        ("a'b\"c\\d", r#"{"x": "a'b\"c\\d"}"#, r#"{"x": "‹secret›"}"#),
        ("a'b\"c\\d", r#"['a\'b"c\\d']"#, "['‹secret›']"),
        ("a'b\"c\\d", r#"'a''b"c\d'"#, "'‹secret›'"),
        (
            "p@ss:w/rd",
            "https://u:p%40ss%3Aw%2Frd@host",
            "https://u:‹secret›@host",
        ),
        (
            "a<b>&\"cd",
            "<text>a&lt;b&gt;&amp;&quot;cd</text>",
            "<text>‹secret›</text>",
        ),
        (
            "a'b;c d",
            "sh -c 'echo a'\"'\"'b;c d'",
            "sh -c 'echo ‹secret›'",
        ),
    ] {
        assert_eq!(masked(&[secret], text), want);
    }
}

#[test]
fn what_is_left_of_two_that_overlap_is_covered() {
    let secrets = ["abcdefgh", "efghijkl", "abcdefghijklmnop"];
    assert_eq!(masked(&secrets, "<abcdefghijkl>"), "<‹secret›>");
    assert_eq!(masked(&secrets, "<abcdefghijklmnop>"), "<‹secret›>");
}

#[test]
fn a_key_is_covered_line_by_line() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\nEF==\n-----END KEY-----";
    let diff = format!(
        "--- \n+++ \n@@ -0,0 +1,5 @@\n{}",
        key.lines()
            .map(|line| format!("+    {line}\n"))
            .collect::<String>()
    );
    let covered = masked(&[key], &diff);
    for line in key.lines() {
        assert!(!covered.contains(line), "{covered}");
    }
    assert!(covered.starts_with("--- \n+++ \n@@"), "{covered}");
    // A short line alone is not a secret.
    assert_eq!(masked(&[key], "EF==\n"), "EF==\n");
    let one_line = json::write(&key.into(), Layout::default());
    assert_eq!(masked(&[key], &one_line), "\"‹secret›\"");
}

/// Returns numbers that look random, but are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }

    fn text(&mut self, length: usize) -> String {
        let letters: Vec<char> = "abcXYZ019 '\"\\/@:%&<\tüß€😀\n".chars().collect();
        (0..length)
            .map(|_| letters[self.below(letters.len())])
            .collect()
    }
}

#[test]
fn no_form_of_a_secret_is_left_in_any_text() {
    let mut random = Random(7);
    for _ in 0..2000 {
        let secrets: Vec<String> = (0..3)
            .map(|_| {
                let length = LENGTH_MIN + random.below(12);
                format!("q{}w", random.text(length))
            })
            .collect();
        let texts: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let needles = needles(&texts);
        let length = random.below(10);
        let around = random.text(length);
        let plain = format!("{around}{}{around}{}", secrets[0], secrets[1]);
        let value: Value = plain.as_str().into();
        let ascii = Layout {
            ascii: true,
            ..Layout::default()
        };
        for text in [
            plain.clone(),
            json::write(&value, Layout::default()),
            json::write(&value, ascii),
            python::repr(&value),
            json::write(
                &json::write(&value, Layout::default()).as_str().into(),
                Layout::default(),
            ),
            json::write(&python::repr(&value).as_str().into(), Layout::default()),
        ] {
            let covered = needles.masked(&text).unwrap_or_default();
            for secret in &texts {
                for form in forms::all_forms(secret) {
                    assert!(
                        !covered.contains(&form),
                        "{form:?} of {secret:?} in {covered:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn keys_cover_what_is_too_short_or_no_text() {
    let mut known = RegisteredSecrets::default();
    known.marks.add_pattern(vec!["pin*".into()]);
    known.marks.add_pattern(vec!["db".into(), "port".into()]);
    known.marks.add_place(&["app", "code"]);
    known.marks.add_place(&["result"]);
    known.needles.add("hunter22");
    let value = json::read(
        r#"{"local": {"app": {"code": "abc", "x": {"app": {"code": "abc"}}}, "pin": [1, {"a": "b"}, null, true, ""],
            "db": {"port": 5432}, "port": 80, "hunter22": 1, "my hunter22": 2, "result": true, "list": [{"pin_2": 3}]}}"#,
    )
    .unwrap();
    let masked = known.masked(&mut Vec::new(), &value).unwrap();
    let want = json::read(
        r#"{"local": {"app": {"code": "‹secret›", "x": {"app": {"code": "abc"}}}, "pin": ["‹secret›", {"a": "‹secret›"}, null, true, ""],
            "db": {"port": "‹secret›"}, "port": 80, "‹secret›": 1, "my ‹secret›": 2, "result": true, "list": [{"pin_2": "‹secret›"}]}}"#,
    )
    .unwrap();
    assert_eq!(masked, want);
}

#[test]
fn no_entry_is_lost_whose_key_reads_like_another_one() {
    let mut known = RegisteredSecrets::default();
    known.needles.add("hunter22");
    known.needles.add("hunter33");
    let value = json::read(r#"{"a hunter22": 1, "a hunter33": 2, "b": 3}"#).unwrap();
    let masked = known.masked(&mut Vec::new(), &value).unwrap();
    assert_eq!(
        json::write(&masked, Layout::default()),
        r#"{"a ‹secret›": 1, "a ‹secret 2›": 2, "b": 3}"#
    );
}

#[test]
fn what_one_program_knows_another_one_learns() {
    name_keys(&Value::list(["tests:pin".into(), "tests:word".into()]));
    let pillar = json::read(
        r#"{"tests": {"pin": 12, "word": "open sesame", "url": "x://open sesame@y"}, "other": 1}"#,
    )
    .unwrap();
    note(pillar.as_map().unwrap());
    let told = marks(&pillar);
    assert_eq!(
        json::write(&told, Layout::default()),
        r#"["open sesame", ["tests", "pin"], ["tests", "word"]]"#
    );
    learn(&told);
    assert_eq!(
        json::write(&value(&pillar), Layout::default()),
        r#"{"tests": {"pin": "‹secret›", "word": "‹secret›", "url": "x://‹secret›@y"}, "other": 1}"#
    );
    assert_eq!(text("say open sesame"), "say ‹secret›");
}

#[test]
fn base64_is_covered_wherever_the_secret_stands_in_it() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
    for secret in [
        "hunter",
        "s\u{fc}\u{df}er than s\u{fc}\u{df}>>>???",
        "1234567",
        "12345678",
    ] {
        let mut known = RegisteredSecrets::default();
        known.needles.add(secret);
        for before in ["", "a", "me", "u:", "user:", "admin:", "x\ny: "] {
            for after in ["", "\n", "!", "/tail", "\"}}"] {
                let text = format!("{before}{secret}{after}");
                for encoded in [
                    STANDARD.encode(&text),
                    URL_SAFE.encode(&text),
                    STANDARD_NO_PAD.encode(&text),
                ] {
                    let masked = known.needles.masked(&format!("Basic {encoded}.")).unwrap();
                    assert!(masked.contains(MASK), "{masked}");
                    // The characters that remain visible are those that encode the secret together
                    // with its neighbours.
                    let shown = masked.len() - "Basic .".len() - MASK.len();
                    let around = encoded.len() - secret.len() * 8 / 6;
                    assert!(shown <= around + 1, "{masked}");
                }
            }
        }
        let other = STANDARD.encode("something else that is as long as that");
        assert_eq!(known.needles.masked(&other), None);
    }
}

#[test]
fn base64_in_lines_is_covered_line_by_line() {
    use base64::Engine as _;
    let secret: String = (0..60).map(|number| format!("{number:03} ")).collect();
    let mut known = RegisteredSecrets::default();
    known.needles.add(&secret);
    let encoded = base64::engine::general_purpose::STANDARD.encode(&secret);
    for length in [76, 64] {
        let lines: Vec<&str> = encoded
            .as_bytes()
            .chunks(length)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        let masked = known.needles.masked(&lines.join("\n")).unwrap();
        assert!(masked.lines().all(|line| line == MASK), "{masked}");
    }
}

#[test]
fn another_program_learns_a_secret_that_stands_in_base64() {
    use base64::Engine as _;
    keep(&[], &"learn-me-in-base64".into());
    let encoded = base64::engine::general_purpose::STANDARD.encode("u:learn-me-in-base64");
    assert_eq!(
        marks(&encoded.as_str().into()),
        Value::list(["learn-me-in-base64".into()])
    );
}

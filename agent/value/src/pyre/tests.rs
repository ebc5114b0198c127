use super::*;

fn sub(pattern: &str, with: &str, text: &str) -> String {
    let regex = Regex::new(pattern, Flags::MULTILINE).unwrap();
    regex
        .subn(&regex.template(with).unwrap(), text, 0)
        .unwrap()
        .0
}

fn problem(pattern: &str) -> String {
    Regex::new(pattern, Flags::NONE).unwrap_err().to_string()
}

#[test]
fn patterns_mean_what_they_mean_in_python() {
    assert_eq!(
        sub(r"(?P<k>\w+)=(\d+)", r"\g<k>:\2", "a=1 b=22"),
        "a:1 b:22"
    );
    assert_eq!(
        sub(r"^#?\s*Port .*$", "Port 22", "#Port 1\n  Port 3\nx"),
        "Port 22\nPort 22\nx"
    );
    assert_eq!(
        sub(r"{{ a }}|b{,2}c|[]x[-]", "-", "{{ a }} bbc ] [ -"),
        "- - - - -"
    );
    assert_eq!(sub(r"x*", "-", "abxd"), "-a-b--d-");
    assert_eq!(sub(r"(?i)AbC(?-i:D)", "-", "abcD abcd"), "- abcd");
    assert_eq!(
        sub(r"(?<!\S)a(?=b)(?P<q>.)(?P=q)", "-", "abb xabb"),
        "- xabb"
    );
    assert_eq!(sub(r"\$\{a\}\/\-\.", r"\\.\.", "${a}/-."), r"\.\.");
    assert_eq!(sub(r"(?x) a  b # c", "-", "ab"), "-");
    assert_eq!(sub(r"\Aa|b\Z", "-", "aab\nb"), "-ab\n-");
}

#[test]
fn a_dollar_matches_before_the_last_newline() {
    let regex = Regex::new("b$", Flags::NONE).unwrap();
    assert!(regex.is_match("a\nb\n").unwrap());
    assert!(!regex.is_match("b\na").unwrap());
}

#[test]
fn bytes_are_searched_byte_by_byte() {
    let data = "größe=1\n".as_bytes();
    let search = BytesSearch::new(r"gr..\wße|gr..", Flags::NONE, data).unwrap();
    assert_eq!(
        search.subn("x", false, 0).unwrap(),
        ("xße=1\n".as_bytes().to_vec(), 1)
    );
    let word = BytesSearch::new(r"\bgr\b", Flags::NONE, data).unwrap();
    assert!(
        word.is_match().unwrap(),
        "bytes of ö are no word characters"
    );
    let literal = BytesSearch::new("1", Flags::NONE, b"1").unwrap();
    assert_eq!(literal.subn(r"\1ü", true, 0).unwrap().0, r"\1ü".as_bytes());
}

#[test]
fn problems_have_pythons_words() {
    for (pattern, want) in [
        ("a(b", "missing ), unterminated subpattern at position 1"),
        ("a)", "unbalanced parenthesis at position 1"),
        ("*a", "nothing to repeat at position 0"),
        ("a**", "multiple repeat at position 2"),
        ("[a", "unterminated character set at position 0"),
        (r"a\y", r"bad escape \y at position 1"),
        (r"(a)\2", "invalid group reference 2 at position 4"),
        ("[z-a]", "bad character range z-a at position 1"),
        (
            "a(?i)b",
            "global flags not at the start of the expression at position 1",
        ),
    ] {
        assert_eq!(problem(pattern), want, "{pattern}");
    }
    let regex = Regex::new("(a)", Flags::NONE).unwrap();
    let bad = |template| regex.template(template).unwrap_err().to_string();
    assert_eq!(bad(r"\2"), "invalid group reference 2 at position 1");
    assert_eq!(bad(r"\d"), r"bad escape \d at position 0");
    assert_eq!(bad(r"\g<x>"), "unknown group name 'x'");
}

#[test]
fn a_pattern_that_runs_away_is_stopped() {
    let regex = Regex::new(r"(?:(a+)+)\1$", Flags::NONE).unwrap();
    let text = format!("{}b", "a".repeat(40));
    assert!(matches!(regex.is_match(&text), Err(Error::TooManySteps(_))));
}

//! Plan files: no text crashes the reader, and a plan that it reads is the same after it is written
//! and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::Document;

fuzz_target!(|text: &str| {
    let Ok(document) = Document::read(text) else {
        return;
    };
    let written = document.text();
    let again = Document::read(&written).unwrap();
    assert_eq!(again.text(), written);
    assert!(plan::moved(&document, &again).is_empty());
    let _ = (
        plan::format_plan(&document),
        document.invocation(),
        document.failures(),
    );
});

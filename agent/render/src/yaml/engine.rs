//! The only file with `unsafe`: reads events from libyaml and writes events to it. Salt's own
//! loader and dumper use the same engine.
//!
//! libyaml keeps pointers into its own structs, so each is on the heap behind a [`NonNull`] and
//! never moves.
#![allow(
    unsafe_code,
    reason = "libyaml-rs is a translation from C and has no safe interface"
)]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;
use std::str::Utf8Error;
use std::sync::Arc;

use libyaml_rs as sys;

use super::error::{Class, Error, Mark};

/// An event of the reader, and the place where it begins.
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) mark: Mark,
}

/// The kinds of events; tags are in their full form (`tag:yaml.org,2002:str`).
pub(super) enum EventKind {
    StreamStart,
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(String),
    Scalar {
        text: Arc<str>,
        tag: Option<String>,
        anchor: Option<String>,
        plain: bool,
    },
    SequenceStart {
        tag: Option<String>,
        anchor: Option<String>,
    },
    SequenceEnd,
    MappingStart {
        tag: Option<String>,
        anchor: Option<String>,
    },
    MappingEnd,
}

/// Reads events from a text.
pub(super) struct Reader<'a> {
    raw: NonNull<sys::yaml_parser_t>,
    done: bool,
    input: PhantomData<&'a str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let raw = leak::<sys::yaml_parser_t>();
        // SAFETY: `raw` is a live allocation of the right size, initialised before anything else
        // uses it; `text` outlives the reader by its lifetime.
        unsafe {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "it fails only when memory runs out, and then the allocator has ended the process"
            )]
            let _ = sys::yaml_parser_initialize(raw.as_ptr());
            sys::yaml_parser_set_input_string(raw.as_ptr(), text.as_ptr(), text.len() as u64);
        }
        Self {
            raw,
            done: false,
            input: PhantomData,
        }
    }

    /// Returns the next event; after an error or the end it is always `StreamEnd`.
    pub(super) fn next(&mut self) -> Result<Event, Error> {
        if self.done {
            return Ok(Event {
                kind: EventKind::StreamEnd,
                mark: Mark::default(),
            });
        }
        let mut event = MaybeUninit::<sys::yaml_event_t>::uninit();
        // SAFETY: the parser was initialised in `new`, and is not used again after it has failed.
        let read = unsafe { sys::yaml_parser_parse(self.raw.as_ptr(), event.as_mut_ptr()) };
        if read.fail {
            self.done = true;
            return Err(self.error());
        }
        // SAFETY: the call succeeded, so the event is initialised; it is deleted once, after its
        // strings were copied.
        let (kind, mark) = unsafe {
            let mut event = event.assume_init();
            let kind = convert(&event);
            let mark = event.start_mark;
            sys::yaml_event_delete(&raw mut event);
            (kind, mark)
        };
        let mark = place(mark);
        let kind = kind.map_err(|error| Error::at(Class::Reader, error.to_string(), mark))?;
        self.done = matches!(kind, EventKind::StreamEnd);
        Ok(Event { kind, mark })
    }

    fn error(&self) -> Error {
        // SAFETY: the parser was initialised in `new`; its problem and context are null or static C
        // strings.
        unsafe {
            let parser = self.raw.as_ref();
            let problem = owned(parser.problem.cast())
                .ok()
                .flatten()
                .unwrap_or_default();
            // The C library has a misspelling here that the translation lacks.
            let problem = problem.replace("hexadecimal number", "hexdecimal number");
            if parser.error == sys::YAML_READER_ERROR {
                return Error::unreadable(problem, parser.problem_value, parser.problem_offset);
            }
            let class = match parser.error {
                sys::YAML_SCANNER_ERROR => Class::Scanner,
                _ => Class::Parser,
            };
            let error = Error::at(class, problem, place(parser.problem_mark));
            match owned(parser.context.cast()).ok().flatten() {
                Some(context) => error.within(context, place(parser.context_mark)),
                None => error,
            }
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, deleted and freed once, here.
        unsafe {
            sys::yaml_parser_delete(self.raw.as_ptr());
            free(self.raw);
        }
    }
}

fn leak<T>() -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(MaybeUninit::<T>::uninit()))).cast()
}

/// # Safety
/// `raw` came from [`leak`] and is not used afterwards.
unsafe fn free<T>(raw: NonNull<T>) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(raw.cast::<MaybeUninit<T>>().as_ptr()) });
}

fn place(mark: sys::yaml_mark_t) -> Mark {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    Mark {
        line: count(mark.line),
        column: count(mark.column),
    }
}

/// # Safety
/// `text` is null or points to a string that ends in NUL.
unsafe fn owned(text: *const u8) -> Result<Option<String>, Utf8Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text.cast()) };
    text.to_str().map(|text| Some(text.to_owned()))
}

/// # Safety
/// A successful `yaml_parser_parse` filled the event in, and it was not deleted yet.
unsafe fn convert(event: &sys::yaml_event_t) -> Result<EventKind, Utf8Error> {
    let data = &event.data;
    // SAFETY: the event's type decides which member of the union is valid; its strings are null or
    // end in NUL, and a scalar's value has the length in the event.
    unsafe {
        Ok(match event.type_ {
            sys::YAML_STREAM_START_EVENT => EventKind::StreamStart,
            sys::YAML_DOCUMENT_START_EVENT => EventKind::DocumentStart,
            sys::YAML_DOCUMENT_END_EVENT => EventKind::DocumentEnd,
            sys::YAML_ALIAS_EVENT => {
                EventKind::Alias(owned(data.alias.anchor)?.unwrap_or_default())
            }
            sys::YAML_SCALAR_EVENT => {
                let bytes = slice::from_raw_parts(data.scalar.value, data.scalar.length as usize);
                EventKind::Scalar {
                    text: str::from_utf8(bytes)?.into(),
                    tag: owned(data.scalar.tag)?,
                    anchor: owned(data.scalar.anchor)?,
                    plain: data.scalar.plain_implicit,
                }
            }
            sys::YAML_SEQUENCE_START_EVENT => EventKind::SequenceStart {
                tag: owned(data.sequence_start.tag)?,
                anchor: owned(data.sequence_start.anchor)?,
            },
            sys::YAML_SEQUENCE_END_EVENT => EventKind::SequenceEnd,
            sys::YAML_MAPPING_START_EVENT => EventKind::MappingStart {
                tag: owned(data.mapping_start.tag)?,
                anchor: owned(data.mapping_start.anchor)?,
            },
            sys::YAML_MAPPING_END_EVENT => EventKind::MappingEnd,
            _ => EventKind::StreamEnd,
        })
    }
}

/// The style of a written scalar.
#[derive(Clone, Copy)]
pub(super) enum Style {
    /// Plain or quoted, as the engine chooses.
    Any,
    /// In double quotes.
    Double,
    /// A block with `|`.
    Literal,
}

/// The items that can be written.
pub(super) enum Out<'a> {
    Alias(&'a str),
    Scalar {
        text: &'a str,
        tag: Option<&'a str>,
        plain: bool,
        quoted: bool,
        style: Style,
    },
    Sequence {
        flow: bool,
        anchor: Option<&'a str>,
    },
    SequenceEnd,
    Mapping {
        tag: Option<&'a str>,
        flow: bool,
        anchor: Option<&'a str>,
    },
    MappingEnd,
}

/// Writes one document.
pub(super) struct Writer {
    raw: NonNull<sys::yaml_emitter_t>,
    out: NonNull<Vec<u8>>,
}

impl Writer {
    /// Begins a document; the engine itself limits `indent` and `width`.
    pub(super) fn new(indent: i32, width: i32, unicode: bool) -> Result<Self, String> {
        let raw = leak::<sys::yaml_emitter_t>();
        let out = NonNull::from(Box::leak(Box::<Vec<u8>>::default()));
        // SAFETY: `raw` is a live allocation, initialised before anything else uses it; `out` lives
        // until `drop`.
        unsafe {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "it fails only when memory runs out, and then the allocator has ended the process"
            )]
            let _ = sys::yaml_emitter_initialize(raw.as_ptr());
            sys::yaml_emitter_set_indent(raw.as_ptr(), indent);
            sys::yaml_emitter_set_width(raw.as_ptr(), width);
            sys::yaml_emitter_set_unicode(raw.as_ptr(), unicode);
            sys::yaml_emitter_set_output(raw.as_ptr(), sink, out.as_ptr().cast());
        }
        let mut writer = Self { raw, out };
        // SAFETY: each call initialises the event it is given; null directives mean none.
        writer.emit(|event| unsafe {
            sys::yaml_stream_start_event_initialize(event, sys::YAML_UTF8_ENCODING).ok
        })?;
        // SAFETY: as above.
        writer.emit(|event| unsafe {
            let none = ptr::null_mut();
            sys::yaml_document_start_event_initialize(event, ptr::null_mut(), none, none, true).ok
        })?;
        Ok(writer)
    }

    /// Writes one item.
    pub(super) fn put(&mut self, out: Out<'_>) -> Result<(), String> {
        match out {
            Out::Alias(name) => {
                let name = Terminated::new(Some(name));
                // SAFETY: the name ends in NUL, lives through the call and is copied by it.
                self.emit(|event| unsafe { sys::yaml_alias_event_initialize(event, name.ptr()).ok })
            }
            Out::Scalar {
                text,
                tag,
                plain,
                quoted,
                style,
            } => self.scalar(text, tag, (plain, quoted), style),
            Out::Sequence { flow, anchor } => self.sequence(flow, anchor),
            Out::SequenceEnd => {
                // SAFETY: the call initialises the event.
                self.emit(|event| unsafe { sys::yaml_sequence_end_event_initialize(event).ok })
            }
            Out::Mapping { tag, flow, anchor } => self.mapping(tag, flow, anchor),
            Out::MappingEnd => {
                // SAFETY: the call initialises the event.
                self.emit(|event| unsafe { sys::yaml_mapping_end_event_initialize(event).ok })
            }
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        tag: Option<&str>,
        (plain, quoted): (bool, bool),
        style: Style,
    ) -> Result<(), String> {
        let length =
            i32::try_from(text.len()).map_err(|_| "a string is longer than 2 GiB".to_owned())?;
        let tag = Terminated::new(tag);
        let style = match style {
            Style::Any => sys::YAML_ANY_SCALAR_STYLE,
            Style::Double => sys::YAML_DOUBLE_QUOTED_SCALAR_STYLE,
            Style::Literal => sys::YAML_LITERAL_SCALAR_STYLE,
        };
        // SAFETY: the call gets the length of the text, and the tag ends in NUL or is null; the
        // call copies both.
        self.emit(|event| unsafe {
            let none = ptr::null();
            let text = text.as_ptr();
            sys::yaml_scalar_event_initialize(
                event,
                none,
                tag.ptr(),
                text,
                length,
                plain,
                quoted,
                style,
            )
            .ok
        })
    }

    fn sequence(&mut self, flow: bool, anchor: Option<&str>) -> Result<(), String> {
        let anchor = Terminated::new(anchor);
        let style = if flow {
            sys::YAML_FLOW_SEQUENCE_STYLE
        } else {
            sys::YAML_BLOCK_SEQUENCE_STYLE
        };
        // SAFETY: the anchor ends in NUL or is null, and is copied by the call.
        self.emit(|event| unsafe {
            sys::yaml_sequence_start_event_initialize(event, anchor.ptr(), ptr::null(), true, style)
                .ok
        })
    }

    fn mapping(
        &mut self,
        tag: Option<&str>,
        flow: bool,
        anchor: Option<&str>,
    ) -> Result<(), String> {
        let implicit = tag.is_none();
        let (tag, anchor) = (Terminated::new(tag), Terminated::new(anchor));
        let style = if flow {
            sys::YAML_FLOW_MAPPING_STYLE
        } else {
            sys::YAML_BLOCK_MAPPING_STYLE
        };
        // SAFETY: anchor and tag end in NUL or are null, and are copied by the call.
        self.emit(|event| unsafe {
            sys::yaml_mapping_start_event_initialize(
                event,
                anchor.ptr(),
                tag.ptr(),
                implicit,
                style,
            )
            .ok
        })
    }

    /// Ends the document and returns its text.
    pub(super) fn finish(mut self) -> Result<String, String> {
        // SAFETY: each call initialises the event.
        self.emit(|event| unsafe { sys::yaml_document_end_event_initialize(event, true).ok })?;
        // SAFETY: as above.
        self.emit(|event| unsafe { sys::yaml_stream_end_event_initialize(event).ok })?;
        // SAFETY: `out` is alive, and only a call of the engine writes to it: none is running.
        let out = unsafe { std::mem::take(self.out.as_mut()) };
        String::from_utf8(out).map_err(|error| error.to_string())
    }

    fn emit(&mut self, fill: impl FnOnce(*mut sys::yaml_event_t) -> bool) -> Result<(), String> {
        let mut event = MaybeUninit::uninit();
        if !fill(event.as_mut_ptr()) {
            return Err("a string cannot be written as YAML".into());
        }
        // SAFETY: `fill` initialised the event, and the engine takes ownership of it whether it
        // succeeds or not.
        unsafe {
            if sys::yaml_emitter_emit(self.raw.as_ptr(), event.as_mut_ptr()).fail {
                let problem = owned(self.raw.as_ref().problem.cast()).ok().flatten();
                return Err(problem.unwrap_or_else(|| "the value cannot be written as YAML".into()));
            }
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: both were created in `new` and are freed once, here; the engine releases `out`
        // first.
        unsafe {
            sys::yaml_emitter_delete(self.raw.as_ptr());
            free(self.raw);
            drop(Box::from_raw(self.out.as_ptr()));
        }
    }
}

/// # Safety
/// The engine calls it with the `out` of a [`Writer`] that is still alive, and a buffer of `size`
/// bytes.
unsafe fn sink(out: *mut c_void, buffer: *mut u8, size: u64) -> i32 {
    // SAFETY: the caller's promise; nothing else uses `out` while the engine runs.
    let (out, bytes) = unsafe {
        (
            &mut *out.cast::<Vec<u8>>(),
            slice::from_raw_parts(buffer, size as usize),
        )
    };
    out.extend_from_slice(bytes);
    1
}

/// A string for C, or null.
struct Terminated(Option<Vec<u8>>);

impl Terminated {
    fn new(text: Option<&str>) -> Self {
        Self(text.map(|text| text.bytes().filter(|byte| *byte != 0).chain([0]).collect()))
    }

    fn ptr(&self) -> *const u8 {
        self.0.as_ref().map_or(ptr::null(), |bytes| bytes.as_ptr())
    }
}

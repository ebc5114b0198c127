//! Values to YAML, byte for byte as Salt's `safe_dump` writes them.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use value::{Map, Value, python};

use super::engine::{Out, Style, Writer};
use super::resolve::{Tag, resolve};

/// How YAML is laid out: PyYAML's own options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dump {
    /// `true` writes everything with brackets, `false` nothing but what is empty, `None` the innermost collections.
    pub default_flow_style: Option<bool>,
    /// Spaces a level; below 2 and above 9 it is 2.
    pub indent: i32,
    /// The column that lines are folded at; below 0 they never are.
    pub width: i32,
    /// Write letters outside ASCII as they are (`allow_unicode`).
    pub unicode: bool,
    /// Sort the keys of all maps: Salt does it to plain dictionaries and leaves ordered ones, as SLS files make them.
    pub sort_keys: bool,
}

/// The defaults of `salt.utils.yaml.safe_dump`.
impl Default for Dump {
    fn default() -> Self {
        Self {
            default_flow_style: None,
            indent: 2,
            width: 80,
            unicode: true,
            sort_keys: true,
        }
    }
}

impl Dump {
    /// The layout of `--out=yaml` with `--out-indent`: 0 is the default, below 0 everything stands in brackets.
    #[must_use]
    pub fn outputter(indent: Option<i32>) -> Self {
        let flow = indent.is_some_and(|indent| indent < 0);
        Self {
            default_flow_style: Some(flow),
            indent: indent.unwrap_or(2).max(0),
            ..Self::default()
        }
    }
}

/// Why a value cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    /// It nests too deeply.
    #[error("the value is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The engine refused it.
    #[error("{0}")]
    Engine(String),
}

/// How deep a value may nest.
const MAX_DEPTH: usize = 500;

/// Writes a value as one document.
///
/// # Errors
/// When the value nests deeper than 500 levels or has a string of 2 GiB.
pub fn dump(value: &Value, options: &Dump) -> Result<String, DumpError> {
    let mut survey = Survey {
        sort: options.sort_keys,
        ..Survey::default()
    };
    survey.walk(value, 0)?;
    let writer =
        Writer::new(options.indent, options.width, options.unicode).map_err(DumpError::Engine)?;
    let hidden = options.unicode.then(|| survey.window()).flatten();
    let mut dumper = Dumper {
        writer,
        options,
        anchors: survey.anchors,
        written: HashSet::new(),
        hidden,
    };
    dumper.put(value)?;
    let text = dumper.writer.finish().map_err(DumpError::Engine)?;
    Ok(match hidden {
        Some(hidden) => hidden.show(&text),
        None => text,
    })
}

/// The `yaml` filter of Jinja: without the newline and the `...` at its end.
///
/// # Errors
/// As [`dump`].
pub fn filter(value: &Value, flow_style: bool) -> Result<String, DumpError> {
    let options = Dump {
        default_flow_style: Some(flow_style),
        ..Dump::default()
    };
    let text = dump(value, &options)?;
    let text = text.trim();
    Ok(text.strip_suffix("\n...").unwrap_or(text).to_owned())
}

/// `salt.serializers.yaml.serialize`: without the last newline.
///
/// # Errors
/// As [`dump`].
pub fn serialize(value: &Value, options: &Dump) -> Result<String, DumpError> {
    let text = dump(value, options)?;
    let text = text
        .strip_suffix("\n...\n")
        .or_else(|| text.strip_suffix('\n'))
        .unwrap_or(&text);
    Ok(text.to_owned())
}

/// What shares its place in memory and gets an anchor when it occurs again; scalars do not.
fn address(value: &Value) -> Option<usize> {
    match value {
        Value::Tuple(items) if items.is_empty() => None,
        Value::List(items) | Value::Tuple(items) => Some(Arc::as_ptr(items) as usize),
        Value::Map(map) | Value::Set(map) => Some(map.address()),
        _ => None,
    }
}

/// What must be known before the first byte is written.
#[derive(Default)]
struct Survey {
    sort: bool,
    met: HashSet<usize>,
    anchors: HashMap<usize, String>,
    /// A character above U+FFFF was met.
    wide: bool,
    /// The windows of private letters that were met.
    private: Vec<u32>,
}

impl Survey {
    fn walk(&mut self, value: &Value, depth: usize) -> Result<(), DumpError> {
        if depth > MAX_DEPTH {
            return Err(DumpError::TooDeep);
        }
        if let Some(address) = address(value)
            && !self.met.insert(address)
        {
            let next = self.anchors.len() + 1;
            self.anchors
                .entry(address)
                .or_insert_with(|| format!("id{next:03}"));
            return Ok(());
        }
        match value {
            Value::Str(text) => self.look(text),
            Value::List(items) | Value::Tuple(items) => {
                for item in items.iter() {
                    self.walk(item, depth + 1)?;
                }
            }
            Value::Map(map) | Value::Set(map) => {
                for (key, value) in entries(map, self.sort) {
                    self.walk(key, depth + 1)?;
                    self.walk(value, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn look(&mut self, text: &str) {
        for c in text.chars().filter(|c| *c >= Hidden::FIRST) {
            self.wide |= c > '\u{ffff}';
            let window = Hidden::window_of(c);
            if !self.private.contains(&window) {
                self.private.push(window);
            }
        }
    }

    /// Private letters that no string of the value has, when wide characters must be hidden.
    fn window(&self) -> Option<Hidden> {
        let free = (0..Hidden::WINDOWS).find(|window| !self.private.contains(window))?;
        self.wide.then_some(Hidden { window: free })
    }
}

/// libyaml in C escapes characters above U+FFFF and this engine does not. Each letter of the escape goes through it
/// as a private letter, so that columns and folds stay right, and is turned back in the finished text. One difference is
/// left: a key of nearly 128 bytes with such a character counts as too long for a simple key.
#[derive(Clone, Copy)]
struct Hidden {
    window: u32,
}

impl Hidden {
    const FIRST: char = '\u{e000}';
    const SIZE: u32 = 0x80;
    const WINDOWS: u32 = 50;

    fn window_of(c: char) -> u32 {
        ((u32::from(c) - u32::from(Self::FIRST)) / Self::SIZE).min(Self::WINDOWS)
    }

    fn base(self) -> u32 {
        u32::from(Self::FIRST) + self.window * Self::SIZE
    }

    fn hide(self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            if c > '\u{ffff}' {
                let escape = format!("\\U{:08X}", u32::from(c));
                out.extend(
                    escape
                        .bytes()
                        .filter_map(|byte| char::from_u32(self.base() + u32::from(byte))),
                );
            } else {
                out.push(c);
            }
        }
        out
    }

    fn show(self, text: &str) -> String {
        let plain = |c: char| match u32::from(c).checked_sub(self.base()) {
            Some(code) if code < Self::SIZE => char::from_u32(code).unwrap_or(c),
            _ => c,
        };
        text.chars().map(plain).collect()
    }
}

/// The entries of a map in the order they are written.
fn entries(map: &Map, sort: bool) -> Vec<(&Value, &Value)> {
    let mut sorted: Vec<_> = map.iter().collect();
    let mut comparable = true;
    if sort {
        value::sorted::sort_by(&mut sorted, |(a, _), (b, _)| {
            let order = order(a, b);
            comparable &= order.is_some();
            order.unwrap_or(Ordering::Equal)
        });
    }
    // Python leaves all of them as they are when two cannot be compared.
    if comparable {
        sorted
    } else {
        map.iter().collect()
    }
}

/// Python's `<` of two keys; `None` where it raises `TypeError`.
fn order(a: &Value, b: &Value) -> Option<Ordering> {
    let is_number = |value: &Value| matches!(value, Value::Bool(_)) || value.as_float().is_some();
    match (a, b) {
        (Value::Str(_), Value::Str(_)) | (Value::Bytes(_), Value::Bytes(_)) => Some(a.cmp(b)),
        (Value::Tuple(a), Value::Tuple(b)) => {
            let differ = a.iter().zip(b.iter()).find(|(a, b)| a != b);
            differ.map_or_else(|| Some(a.len().cmp(&b.len())), |(a, b)| order(a, b))
        }
        _ => (is_number(a) && is_number(b)).then(|| a.cmp(b)),
    }
}

/// What does not make the collection around it spread over lines.
fn is_plain(value: &Value) -> bool {
    !matches!(
        value,
        Value::Bytes(_) | Value::List(_) | Value::Tuple(_) | Value::Map(_) | Value::Set(_)
    )
}

struct Dumper<'a> {
    writer: Writer,
    options: &'a Dump,
    anchors: HashMap<usize, String>,
    written: HashSet<usize>,
    hidden: Option<Hidden>,
}

impl Dumper<'_> {
    fn put(&mut self, value: &Value) -> Result<(), DumpError> {
        match value {
            Value::Null => self.plain("null"),
            Value::Bool(truth) => self.plain(if *truth { "true" } else { "false" }),
            Value::Int(_) | Value::Big(_) => self.plain(&python::str(value)),
            Value::Float(number) => self.plain(&float(*number)),
            Value::Str(text) => self.text(text),
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::List(_) | Value::Tuple(_) | Value::Map(_) | Value::Set(_) => {
                self.collection(value)
            }
        }
    }

    fn write(&mut self, out: Out<'_>) -> Result<(), DumpError> {
        self.writer.put(out).map_err(DumpError::Engine)
    }

    fn plain(&mut self, text: &str) -> Result<(), DumpError> {
        self.write(Out::Scalar {
            text,
            tag: None,
            plain: true,
            quoted: false,
            style: Style::Any,
        })
    }

    fn text(&mut self, text: &str) -> Result<(), DumpError> {
        if let Some(hidden) = self.hidden.filter(|_| text.chars().any(|c| c > '\u{ffff}')) {
            let text = &hidden.hide(text);
            return self.write(Out::Scalar {
                text,
                tag: None,
                plain: false,
                quoted: true,
                style: Style::Double,
            });
        }
        let plain = resolve(text) == Tag::Str;
        self.write(Out::Scalar {
            text,
            tag: None,
            plain,
            quoted: true,
            style: Style::Any,
        })
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), DumpError> {
        // 57 bytes make the 76 letters of a line.
        let text: String = bytes
            .chunks(57)
            .map(|line| STANDARD.encode(line) + "\n")
            .collect();
        let tag = Some("tag:yaml.org,2002:binary");
        self.write(Out::Scalar {
            text: &text,
            tag,
            plain: false,
            quoted: false,
            style: Style::Literal,
        })
    }

    fn collection(&mut self, value: &Value) -> Result<(), DumpError> {
        let address = address(value).unwrap_or_default();
        let anchor = self.anchors.get(&address).cloned();
        let anchor = anchor.as_deref();
        if let Some(name) = anchor
            && !self.written.insert(address)
        {
            return self.write(Out::Alias(name));
        }
        match value {
            Value::Map(map) => {
                let flow = self.flow(|| {
                    map.iter()
                        .all(|(key, value)| is_plain(key) && is_plain(value))
                });
                self.mapping(
                    map,
                    Out::Mapping {
                        tag: None,
                        flow,
                        anchor,
                    },
                )
            }
            Value::Set(map) => {
                let flow = self.flow(|| map.keys().all(is_plain));
                self.mapping(
                    map,
                    Out::Mapping {
                        tag: Some("tag:yaml.org,2002:set"),
                        flow,
                        anchor,
                    },
                )
            }
            other => {
                let items = other.as_list().unwrap_or_default();
                let flow = self.flow(|| items.iter().all(is_plain));
                self.write(Out::Sequence { flow, anchor })?;
                items.iter().try_for_each(|item| self.put(item))?;
                self.write(Out::SequenceEnd)
            }
        }
    }

    fn flow(&self, innermost: impl FnOnce() -> bool) -> bool {
        self.options.default_flow_style.unwrap_or_else(innermost)
    }

    fn mapping(&mut self, map: &Map, start: Out<'_>) -> Result<(), DumpError> {
        self.write(start)?;
        for (key, value) in entries(map, self.options.sort_keys) {
            self.put(key)?;
            self.put(value)?;
        }
        self.write(Out::MappingEnd)
    }
}

/// Python's repr with PyYAML's `.0` before an exponent.
fn float(number: f64) -> String {
    let text = python::float(number);
    match text.as_str() {
        "nan" => ".nan".into(),
        "inf" => ".inf".into(),
        "-inf" => "-.inf".into(),
        _ if text.contains('e') && !text.contains('.') => text.replacen('e', ".0e", 1),
        _ => text,
    }
}

//! Writes values as YAML, byte for byte as Salt's `safe_dump` does.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use value::{Map, Value, python};

use super::engine::{Out, Style, Writer};
use super::resolve::{Tag, resolve};

/// The layout of written YAML, with PyYAML's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dump {
    /// `true` writes all collections in flow style (with brackets), `false` only empty ones, and
    /// `None` the innermost ones.
    pub default_flow_style: Option<bool>,
    /// The number of spaces per level; below 2 and above 9 it is 2.
    pub indent: i32,
    /// The column at which lines are folded; if negative, they never are.
    pub width: i32,
    /// True to write letters outside of ASCII unescaped (`allow_unicode`).
    pub unicode: bool,
    /// True to sort the keys of all maps. Salt sorts plain dictionaries, but not ordered ones,
    /// which SLS files produce.
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
    /// Returns the layout of `--out=yaml` with `--out-indent`: 0 is the default, and a negative
    /// number writes everything in flow style.
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

/// The reason why a value cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    /// The value is nested too deeply.
    #[error("the value is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The engine refused the value.
    #[error("{0}")]
    Engine(String),
}

/// The maximum nesting depth of a value.
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

/// Writes a value as Jinja's `yaml` filter does: without the newline and the `...` at the end.
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

/// Writes a value as `salt.serializers.yaml.serialize` does: without the last newline.
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

/// Returns the address of a container, which gets an anchor if it occurs again; `None` for scalars.
fn address(value: &Value) -> Option<usize> {
    match value {
        Value::Tuple(items) if items.is_empty() => None,
        Value::List(items) | Value::Tuple(items) => Some(Arc::as_ptr(items) as usize),
        Value::Map(map) | Value::Set(map) => Some(map.address()),
        _ => None,
    }
}

/// The data about a value that is needed before the first byte is written.
#[derive(Default)]
struct Survey {
    sort: bool,
    met: HashSet<usize>,
    anchors: HashMap<usize, String>,
    /// True if there is a character above U+FFFF.
    wide: bool,
    /// The windows of private characters that occur.
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

    /// Returns a window of private characters that no string uses, if wide characters have to be
    /// hidden.
    fn window(&self) -> Option<Hidden> {
        let free = (0..Hidden::WINDOWS).find(|window| !self.private.contains(window))?;
        self.wide.then_some(Hidden { window: free })
    }
}

/// A window of private characters. libyaml in C escapes characters above U+FFFF, and this engine
/// does not. Therefore each letter of the escape passes the engine as a private character, which
/// keeps columns and folds right, and is replaced in the finished text. One difference remains: a
/// key of nearly 128 bytes with such a character counts as too long for a simple key.
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

/// Returns the entries of a map in the order in which they are written.
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
    // Python does not sort at all if two of the keys cannot be compared.
    if comparable {
        sorted
    } else {
        map.iter().collect()
    }
}

/// Compares two keys as Python's `<`; `None` if Python raises `TypeError`.
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

/// True for values that do not force the surrounding collection into block style.
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
        // 57 bytes are the 76 letters of a base64 line.
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

/// Returns Python's repr of a float, with PyYAML's `.0` before an exponent.
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

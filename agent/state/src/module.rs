//! What a module is: a name and a list of functions, each declared once with its docs and arguments.
//!
//! The declaration feeds the typed arguments, `sys.doc`, `sys.argspec` and `sys.list_functions`.

use std::io::ErrorKind;

use value::{Map, Value};

use crate::exec::Exec;
use crate::typed::Typed;

/// One module, such as `file`. The file that declares it holds everything about it.
#[derive(Debug)]
pub struct Module<R: 'static> {
    /// Its name, as Salt has it.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Its functions.
    pub functions: &'static [Function<R>],
}

/// One function of a module, as `sys.doc`, `sys.argspec` and `sys.list_functions` show it.
#[derive(Debug)]
pub struct Function<R: 'static> {
    /// Its name without the module's.
    pub name: &'static str,
    /// Its lines of documentation, each with its end.
    pub doc: &'static str,
    /// The arguments it declares, in Salt's order.
    pub args: &'static [Arg],
    /// Whether it takes more positional arguments than it declares (`*args`).
    pub varargs: bool,
    /// What becomes of keyword arguments that it does not declare.
    pub extra: Extra,
    /// Calls it.
    pub call: fn(&Exec, &mut Given) -> Result<R, Error>,
}

/// One declared argument.
#[derive(Debug)]
pub struct Arg {
    /// Its name.
    pub name: &'static str,
    /// Its lines of documentation, each with its end.
    pub doc: &'static str,
    /// Its default; none means that it must be given.
    pub default: Option<fn() -> Value>,
}

/// What becomes of keyword arguments that a function does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Salt's function takes `**kwargs`: accepted.
    Accept,
    /// It does not: the call is refused before anything runs.
    Reject,
}

/// The arguments of one call.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// By position.
    pub args: Vec<Value>,
    /// By name.
    pub kwargs: Map,
    /// Those that the function declares and that are not taken yet.
    declared: &'static [Arg],
    next: usize,
    /// The first argument that could not be taken, and why where it was there.
    refused: Option<(&'static str, Option<String>)>,
}

impl Given {
    /// The arguments of a call.
    #[must_use]
    pub fn new(args: Vec<Value>, kwargs: Map) -> Self {
        Self {
            args,
            kwargs,
            ..Self::default()
        }
    }

    /// Takes the next declared argument: by position, by name, or its default. The macro below calls it for each and then
    /// [`Given::finish`]: a refusal that was returned each time, or a name and a default that were passed, would be a fifth
    /// of the code of all declarations.
    #[inline(never)]
    pub fn take<T: Typed>(&mut self) -> T {
        let Some((arg, later)) = self.declared.split_first() else {
            return T::default();
        };
        self.declared = later;
        let given = match self.args.get_mut(self.next) {
            Some(value) => {
                self.next += 1;
                Some(std::mem::take(value))
            }
            None if self.kwargs.is_empty() => None,
            None => self.kwargs.remove(arg.name),
        };
        let given = given.or_else(|| arg.default.map(|default| default()));
        let problem = match given.map(T::typed) {
            Some(Ok(value)) => return value,
            Some(Err(problem)) => Some(problem),
            None => None,
        };
        self.refused.get_or_insert((arg.name, problem));
        T::default()
    }

    /// Ends the taking.
    ///
    /// # Errors
    /// The first argument that was missing and has no default, or was not of its type.
    pub fn finish(&mut self) -> Result<(), Error> {
        match self.refused.take() {
            None => Ok(()),
            Some((name, None)) => Err(Error::missing(name)),
            Some((name, Some(problem))) => Err(Error::argument(name, problem)),
        }
    }

    /// Takes the positional arguments that are left (`*args`).
    pub fn rest(&mut self) -> Vec<Value> {
        let rest = self.args.split_off(self.next.min(self.args.len()));
        self.next = self.args.len();
        rest
    }

    /// Takes the keyword arguments that are left (`**kwargs`).
    pub fn extra(&mut self) -> Map {
        std::mem::take(&mut self.kwargs)
    }
}

/// What a state function returns; the engine adds the `__…__` keys, times and the low tag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ret {
    /// True, false, or none: would change.
    pub result: Option<bool>,
    /// What changed, or would.
    pub changes: Value,
    /// One sentence or more for the user.
    pub comment: String,
    /// The name that the return carries where it is not the chunk's.
    pub name: Option<String>,
    /// Whether the comment stands before the result.
    pub comment_first: bool,
    /// Shown to the user beside the comment.
    pub warnings: Vec<String>,
    /// Other keys that this function's return has in Salt (`skip_watch`, `pchanges`, `data` …).
    pub extra: Map,
}

impl Ret {
    /// It is as asked; nothing was to be done unless changes are added.
    #[must_use]
    pub fn ok(comment: impl Into<String>) -> Self {
        Self {
            result: Some(true),
            comment: comment.into(),
            changes: Map::new().into(),
            ..Self::default()
        }
    }

    /// It could not be made as asked.
    #[must_use]
    pub fn failed(comment: impl Into<String>) -> Self {
        Self {
            result: Some(false),
            ..Self::ok(comment)
        }
    }

    /// Test mode: what would be done.
    #[must_use]
    pub fn would(comment: impl Into<String>) -> Self {
        Self {
            result: None,
            ..Self::ok(comment)
        }
    }

    /// With one more entry in `changes`.
    #[must_use]
    pub fn change(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Some(changes) = self.changes.as_map_mut() {
            changes.insert(key, value);
        }
        self
    }

    /// With these changes.
    #[must_use]
    pub fn changes(self, changes: impl Into<Value>) -> Self {
        Self {
            changes: changes.into(),
            ..self
        }
    }

    /// With one more warning.
    #[must_use]
    pub fn warning(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }

    /// With one more key of its own.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key, value);
        self
    }
}

/// Why a function failed. Its text is a state's comment, or what `salt-call` prints, so it reads as Salt's does.
/// It is one pointer, for it stands in what nearly every function here returns.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Problem>);

/// What went wrong, by its kind.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The function says no, in a sentence of its own (Salt's `CommandExecutionError`, or a state that returns False).
    #[error("{0}")]
    Refused(String),
    /// An argument is of the wrong type or out of its range (Salt's `SaltInvocationError`).
    #[error("{name}: {problem}")]
    Argument {
        /// Which.
        name: &'static str,
        /// What was expected, and what came.
        problem: String,
    },
    /// A required argument is missing.
    #[error("Missing parameter {0}")]
    Missing(&'static str),
    /// Arguments that the function does not take.
    #[error("{0}")]
    Unexpected(String),
    /// No such function.
    #[error("'{0}' is not available.")]
    NotAvailable(String),
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// What it was about.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file, folder or link cannot be read.
    #[error("Cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl From<Problem> for Error {
    #[cold]
    #[inline(never)]
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl Error {
    /// The function says no, in a sentence of its own.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn refused(sentence: String) -> Self {
        Problem::Refused(sentence).into()
    }

    /// An argument is of the wrong type or out of its range.
    #[must_use]
    pub fn argument(name: &'static str, problem: String) -> Self {
        Problem::Argument { name, problem }.into()
    }

    /// A required argument is missing.
    #[must_use]
    pub fn missing(name: &'static str) -> Self {
        Problem::Missing(name).into()
    }

    /// The function does not take some of the arguments.
    #[must_use]
    pub fn unexpected(sentence: String) -> Self {
        Problem::Unexpected(sentence).into()
    }

    /// There is no such function.
    #[must_use]
    pub fn not_available(name: String) -> Self {
        Problem::NotAvailable(name).into()
    }

    /// What went wrong, by its kind.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.0
    }

    /// Whether there is no such function.
    #[must_use]
    pub fn is_not_available(&self) -> bool {
        matches!(self.problem(), Problem::NotAvailable(_))
    }

    /// Whether the function itself failed, not the way that it was called.
    #[must_use]
    pub fn is_of_command(&self) -> bool {
        matches!(self.problem(), Problem::Refused(_) | Problem::Io { .. })
    }

    /// Whether the file system takes nothing from anybody now: it is full, or mounted read-only.
    #[must_use]
    pub fn is_of_disk(&self) -> bool {
        let Problem::Io { source, .. } = self.problem() else {
            return false;
        };
        matches!(
            source.kind(),
            ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull
        )
    }

    /// For `map_err`: the system's reason with the path that it is about.
    pub fn io(path: impl AsRef<std::path::Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().display().to_string();
        move |source| Problem::Io { path, source }.into()
    }

    /// For `map_err`: why the file, folder or link of a path cannot be read.
    pub fn read(path: impl AsRef<std::path::Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().display().to_string();
        move |source| Problem::Read { path, source }.into()
    }
}

impl From<String> for Error {
    fn from(sentence: String) -> Self {
        Self::refused(sentence)
    }
}

impl From<value::pyre::Error> for Error {
    fn from(error: value::pyre::Error) -> Self {
        Self::refused(error.to_string())
    }
}

impl From<value::random::Error> for Error {
    fn from(error: value::random::Error) -> Self {
        Self::refused(error.to_string())
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Self {
        Self::refused(sentence.to_owned())
    }
}

impl<R> Module<R> {
    /// A function by its name without the module's.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&'static Function<R>> {
        let mut functions = self.functions.iter();
        functions.find(|f| f.name.len() == name.len() && f.name == name)
    }
}

impl<R> Function<R> {
    /// Calls the function, once the arguments that it does not declare are refused.
    ///
    /// # Errors
    /// Its own, or what is wrong with the arguments.
    pub fn invoke(&self, full_name: &str, cx: &Exec, mut given: Given) -> Result<R, Error> {
        self.check(full_name, &given)?;
        given.declared = self.args;
        (self.call)(cx, &mut given)
    }

    /// What is wrong with the arguments of a call, before anything runs.
    ///
    /// # Errors
    /// Arguments that are unknown, given twice, too many or missing, in Salt's words.
    pub fn check(&self, full_name: &str, given: &Given) -> Result<(), Error> {
        if !self.varargs && given.args.len() > self.args.len() {
            let (most, got) = (self.args.len(), given.args.len());
            return Err(Error::unexpected(format!(
                "{full_name} takes at most {most} positional arguments ({got} given)"
            )));
        }
        let twice = self
            .args
            .iter()
            .take(given.args.len())
            .find(|arg| given.kwargs.contains(arg.name));
        if let Some(arg) = twice {
            return Err(Error::unexpected(format!(
                "{full_name} got multiple values for argument '{}'",
                arg.name
            )));
        }
        let unknown = self.unknown(&given.kwargs);
        if self.extra == Extra::Reject && !unknown.is_empty() {
            return Err(Error::unexpected(invalid_keywords(&unknown, full_name)));
        }
        let missing = self
            .args
            .iter()
            .skip(given.args.len())
            .find(|arg| arg.default.is_none() && !given.kwargs.contains(arg.name));
        missing.map_or(Ok(()), |arg| Err(Error::missing(arg.name)))
    }

    /// The names among `kwargs` that the function does not declare.
    #[must_use]
    pub fn unknown(&self, kwargs: &Map) -> Vec<String> {
        let known = |key: &str| key.starts_with("__") || self.declares(key);
        kwargs
            .keys()
            .filter(|key| !key.as_str().is_some_and(known))
            .map(Value::to_text)
            .collect()
    }

    /// Whether the function declares an argument of this name.
    #[must_use]
    pub fn declares(&self, name: &str) -> bool {
        // Most names differ in their length: nothing is called to see that.
        let mut args = self.args.iter();
        args.any(|arg| arg.name.len() == name.len() && arg.name == name)
    }
}

/// Salt's sentence about arguments that a function does not take.
#[must_use]
pub fn invalid_keywords(names: &[String], full_name: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        Some((last, [])) => format!("{last} is an invalid keyword argument for '{full_name}'"),
        Some((last, rest)) => {
            format!(
                "{} and {last} are invalid keyword arguments for '{full_name}'",
                rest.join(", ")
            )
        }
        None => String::new(),
    }
}

/// `type` for `r#type`: an argument may have the name of a Rust keyword.
#[must_use]
pub const fn bare(ident: &'static str) -> &'static str {
    match ident.as_bytes() {
        [b'r', b'#', ..] => ident.split_at(2).1,
        _ => ident,
    }
}

/// A declared default as `sys.argspec` shows it.
pub fn shown<T: Typed>(default: T) -> Value {
    default.shown()
}

/// Declares a module of state functions (`fn(&Exec, Args) -> Result<Ret, Error>`).
///
/// No default means that the argument must be given; `*rest` collects further positional arguments into `args.rest`;
/// `..kwargs` collects further keyword arguments into `args.kwargs`. Write `r#true` for names that Rust keeps to itself.
#[macro_export]
macro_rules! state_module {
    ($($body:tt)*) => { $crate::module! { @of $crate::module::Ret; $($body)* } };
}

/// Declares a module of execution functions, runners or wheel functions (`fn(&Exec, Args) -> Result<Value, Error>`).
#[macro_export]
macro_rules! exec_module {
    ($($body:tt)*) => { $crate::module! { @of value::Value; $($body)* } };
}

/// What both kinds of declaration come to.
#[macro_export]
macro_rules! module {
    (
        @of $ret:ty;
        $(#[doc = $mdoc:literal])* mod $module:ident;
        $(
            $(#[doc = $doc:literal])*
            fn $fun:ident($args:ident { $(
                $(#[doc = $adoc:literal])* $arg:ident : $ty:ty $(= $default:expr)? ,
            )* $(* $rest:ident ,)? $(.. $kwargs:ident)? });
        )*
    ) => {
        $(
            #[derive(Debug)]
            #[allow(dead_code, reason = "some arguments are accepted for Salt's sake and have no meaning here")]
            pub(crate) struct $args {
                $( $(#[doc = $adoc])* pub(crate) $arg: $ty, )*
                $( pub(crate) $rest: Vec<value::Value>, )?
                $( pub(crate) $kwargs: value::Map, )?
            }

            impl $args {
                #[allow(unused_variables, reason = "a function may have no arguments")]
                fn taken(given: &mut $crate::module::Given) -> Result<Self, $crate::module::Error> {
                    let taken = Self {
                        $( $arg: given.take(), )*
                        $( $rest: given.rest(), )?
                        $( $kwargs: given.extra(), )?
                    };
                    given.finish()?;
                    Ok(taken)
                }
            }
        )*

        /// The module's declaration.
        pub(crate) const MODULE: $crate::module::Module<$ret> = $crate::module::Module {
            name: $crate::module::bare(stringify!($module)),
            doc: concat!($($mdoc, "\n"),*),
            functions: &[ $( $crate::module::Function {
                name: $crate::module::bare(stringify!($fun)),
                doc: concat!($($doc, "\n"),*),
                args: &[ $( $crate::module::Arg {
                    name: $crate::module::bare(stringify!($arg)),
                    doc: concat!($($adoc, "\n"),*),
                    default: $crate::module!(@shown $ty, $($default)?),
                } ),* ],
                varargs: $crate::module!(@is $($rest)?),
                extra: $crate::module!(@extra $($kwargs)?),
                call: |cx, given| $fun(cx, $args::taken(given)?),
            } ),* ],
        };
    };
    (@shown $ty:ty,) => { None };
    (@shown $ty:ty, $default:expr) => { Some(|| $crate::module::shown::<$ty>($default)) };
    (@is) => { false };
    (@is $rest:ident) => { true };
    (@extra) => { $crate::module::Extra::Reject };
    (@extra $kwargs:ident) => { $crate::module::Extra::Accept };
}

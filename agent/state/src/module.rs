//! The declaration of modules: a name and a list of functions. Each function is declared once, with
//! its docs and arguments.
//!
//! The declaration feeds the typed arguments, `sys.doc`, `sys.argspec` and `sys.list_functions`. It
//! also states facts: what the module needs, and what else is known of a function.

mod error;

use value::{Map, Value};

use crate::exec::Exec;
use crate::facts::{Aggregate, Facts, Inverse, Need, Virtual};
use crate::typed::Typed;

pub use error::{Error, Problem};

/// One module, such as `file`. The source file that declares it contains all of it.
#[derive(Debug)]
pub struct Module<R: 'static> {
    /// Its name in Salt.
    pub name: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// The programs and folders that it needs.
    pub needs: &'static [Need],
    /// Returns what else this machine lacks for it (Salt's `__virtual__`).
    pub virtual_: Option<Virtual>,
    /// Combines its chunks, if they can be combined (Salt's `mod_aggregate`).
    pub aggregate: Option<Aggregate>,
    /// The inverses of the changes that it makes to resources that are not files.
    pub inverses: &'static [&'static Inverse],
    /// The facts about its functions that declare no others.
    pub facts: Option<&'static Facts>,
    /// Its functions.
    pub functions: &'static [Function<R>],
}

/// One function of a module, as `sys.doc`, `sys.argspec` and `sys.list_functions` show it.
#[derive(Debug)]
pub struct Function<R: 'static> {
    /// Its name, without the module's.
    pub name: &'static str,
    /// Its documentation. Each line ends with a newline.
    pub doc: &'static str,
    /// The declared arguments, in Salt's order.
    pub args: &'static [Arg],
    /// True if it accepts more positional arguments than it declares (`*args`).
    pub varargs: bool,
    /// The treatment of keyword arguments that it does not declare.
    pub extra: Extra,
    /// Further facts; `None` for those of its module.
    pub facts: Option<&'static Facts>,
    /// Takes the arguments and calls the function.
    pub call: fn(&Exec, &mut Arguments) -> Result<R, Error>,
}

/// A state function of the registry.
pub(crate) type StateFunction = &'static Function<Ret>;

/// One declared argument.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Its name.
    pub name: &'static str,
    /// Its documentation. Each line ends with a newline.
    pub doc: &'static str,
    /// Its default; `None` if the argument is required.
    pub default: Option<fn() -> Value>,
}

/// A field of a declared function's arguments: an argument, or a group of them.
pub trait Argument {
    /// The arguments of a group; `None` for a single argument.
    const GROUP: Option<&'static [Arg]>;

    /// Takes the value from a call.
    fn take(given: &mut Arguments) -> Self;
}

impl<T: Typed> Argument for T {
    const GROUP: Option<&'static [Arg]> = None;

    #[inline(always)]
    fn take(given: &mut Arguments) -> Self {
        given.take()
    }
}

/// Returns how many arguments these fields are. Each is an argument and its
/// [`GROUP`](Argument::GROUP), which replaces it.
#[must_use]
pub const fn count(fields: &[(Arg, Option<&'static [Arg]>)]) -> usize {
    let (mut fields, mut sum) = (fields, 0);
    while let [(_, group), rest @ ..] = fields {
        sum += match group {
            Some(group) => group.len(),
            None => 1,
        };
        fields = rest;
    }
    sum
}

/// Returns the arguments of these fields in one list. `N` is their [`count`].
#[must_use]
pub const fn flatten<const N: usize>(fields: &[(Arg, Option<&'static [Arg]>)]) -> [Arg; N] {
    let none = Arg {
        name: "",
        doc: "",
        default: None,
    };
    let (mut fields, mut all, mut at) = (fields, [none; N], 0);
    while let [(arg, group), rest @ ..] = fields {
        let mut args = match group {
            Some(group) => *group,
            None => std::slice::from_ref(arg),
        };
        while let [arg, later @ ..] = args {
            if let Some((_, free)) = all.split_at_mut_checked(at)
                && let [place, ..] = free
            {
                *place = *arg;
            }
            at += 1;
            args = later;
        }
        fields = rest;
    }
    all
}

/// The treatment of keyword arguments that a function does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// They are accepted, because Salt's function takes `**kwargs`.
    Accept,
    /// They are not accepted: the call is refused before anything runs.
    Reject,
}

/// The arguments of one call.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// The positional arguments.
    pub args: Vec<Value>,
    /// The keyword arguments.
    pub kwargs: Map,
    /// The declared arguments that are not taken yet.
    declared: &'static [Arg],
    next: usize,
    /// The first argument that could not be taken. The text says why; it is `None` if the argument
    /// is missing.
    refused: Option<(&'static str, Option<String>)>,
}

impl Arguments {
    /// Returns the arguments of a call, of which none is taken yet.
    #[must_use]
    pub fn new(args: Vec<Value>, kwargs: Map) -> Self {
        Self {
            args,
            kwargs,
            ..Self::default()
        }
    }

    /// Takes the next declared argument: by position, by name, or its default. The macro below
    /// calls this for each argument, and then [`Arguments::finish`], which reports errors. Returning
    /// each error here, or passing names and defaults to this function, would make the code of all
    /// declarations a fifth larger.
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

    /// Reports the first error of the calls of [`Arguments::take`].
    ///
    /// # Errors
    /// The first argument that is missing and has no default, or has the wrong type.
    pub fn finish(&mut self) -> Result<(), Error> {
        match self.refused.take() {
            None => Ok(()),
            Some((name, None)) => Err(Error::missing(name)),
            Some((name, Some(problem))) => Err(Error::argument(name, problem)),
        }
    }

    /// Takes the next declared arguments, as many as these are, into a dictionary. Those without a
    /// value are not in it.
    pub fn take_map(&mut self, args: &[Arg]) -> Map {
        let taken = args.iter().map(|arg| (arg.name, self.take::<Value>()));
        taken.filter(|(_, value)| !value.is_null()).collect()
    }

    /// Takes a group from keywords, for a function that does not declare it. Returns the other
    /// keywords, too.
    ///
    /// # Errors
    /// The errors of [`Arguments::finish`].
    pub fn group_from<T: Argument>(kwargs: Map) -> Result<(T, Map), Error> {
        let mut given = Self::new(Vec::new(), kwargs);
        given.declared = T::GROUP.unwrap_or_default();
        let group = T::take(&mut given);
        given.finish()?;
        Ok((group, given.kwargs))
    }

    /// Takes the remaining positional arguments (`*args`).
    pub fn rest(&mut self) -> Vec<Value> {
        let rest = self.args.split_off(self.next.min(self.args.len()));
        self.next = self.args.len();
        rest
    }

    /// Takes the remaining keyword arguments (`**kwargs`).
    pub fn extra(&mut self) -> Map {
        std::mem::take(&mut self.kwargs)
    }
}

/// The return of a state function. The engine adds the `__…__` keys, the times and the low tag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ret {
    /// True for success, false for failure, `None` if the state would change something (test mode).
    pub result: Option<bool>,
    /// The changes that were made, or in test mode would be made.
    pub changes: Value,
    /// One or more sentences for the user.
    pub comment: String,
    /// The name in the return, if it is not the chunk's.
    pub name: Option<String>,
    /// True if the comment comes before the result in the return.
    pub comment_first: bool,
    /// Warnings that are shown to the user next to the comment.
    pub warnings: Vec<String>,
    /// Other keys of this function's return in Salt (`skip_watch`, `pchanges`, `data` …).
    pub extra: Map,
}

impl Ret {
    /// Returns a success. It has no changes unless the caller adds some.
    #[must_use]
    pub fn ok(comment: impl Into<String>) -> Self {
        Self {
            result: Some(true),
            comment: comment.into(),
            changes: Map::new().into(),
            ..Self::default()
        }
    }

    /// Returns a failure.
    #[must_use]
    pub fn failed(comment: impl Into<String>) -> Self {
        Self {
            result: Some(false),
            ..Self::ok(comment)
        }
    }

    /// Returns the result of test mode: the comment says what would be done.
    #[must_use]
    pub fn would(comment: impl Into<String>) -> Self {
        Self {
            result: None,
            ..Self::ok(comment)
        }
    }

    /// Adds an entry to `changes`.
    #[must_use]
    pub fn change(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Some(changes) = self.changes.as_map_mut() {
            changes.insert(key, value);
        }
        self
    }

    /// Replaces the changes.
    #[must_use]
    pub fn changes(self, changes: impl Into<Value>) -> Self {
        Self {
            changes: changes.into(),
            ..self
        }
    }

    /// Adds a warning.
    #[must_use]
    pub fn warning(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }

    /// Adds another key to the return.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key, value);
        self
    }
}

impl<R> Module<R> {
    /// A module without a name, functions and facts, for `..Module::BARE`.
    pub const BARE: Self = Self {
        name: "",
        doc: "",
        needs: &[],
        virtual_: None,
        aggregate: None,
        inverses: &[],
        facts: None,
        functions: &[],
    };

    /// Returns a function by its name, without the module's.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&'static Function<R>> {
        let mut functions = self.functions.iter();
        functions.find(|f| f.name.len() == name.len() && f.name == name)
    }
}

impl<R> Function<R> {
    /// Checks the arguments and calls the function.
    ///
    /// # Errors
    /// Those of the function, and those of [`Function::check`].
    pub fn invoke(&self, full_name: &str, cx: &Exec, mut given: Arguments) -> Result<R, Error> {
        self.check(full_name, &given)?;
        given.declared = self.args;
        (self.call)(cx, &mut given)
    }

    /// Checks the arguments of a call before anything runs.
    ///
    /// # Errors
    /// Arguments that are unknown, given twice, too many or missing, in Salt's words.
    pub fn check(&self, full_name: &str, given: &Arguments) -> Result<(), Error> {
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

    /// Returns the names in `kwargs` that the function does not declare.
    #[must_use]
    pub fn unknown(&self, kwargs: &Map) -> Vec<String> {
        let known = |key: &str| key.starts_with("__") || self.declares(key);
        kwargs
            .keys()
            .filter(|key| !key.as_str().is_some_and(known))
            .map(Value::to_text)
            .collect()
    }

    /// Returns whether the function declares an argument of this name.
    #[must_use]
    pub fn declares(&self, name: &str) -> bool {
        // Most names differ in length. Comparing lengths first avoids a call of the string
        // comparison.
        let mut args = self.args.iter();
        args.any(|arg| arg.name.len() == name.len() && arg.name == name)
    }
}

/// Returns Salt's sentence about arguments that a function does not take.
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

/// Returns `type` for `r#type`: an argument may have the name of a Rust keyword.
#[must_use]
pub const fn bare(ident: &'static str) -> &'static str {
    match ident.as_bytes() {
        [b'r', b'#', ..] => ident.split_at(2).1,
        _ => ident,
    }
}

/// Returns a declared default as `sys.argspec` shows it.
pub fn default_value<T: Typed>(default: T) -> Value {
    default.to_value()
}

/// Expands to the lines of a documentation, each with a newline.
#[cfg(feature = "docs")]
#[macro_export]
macro_rules! doc {
    ($($line:literal)*) => { concat!($($line, "\n"),*) };
}

/// Expands to an empty text: this build has no documentation.
#[cfg(not(feature = "docs"))]
#[macro_export]
macro_rules! doc {
    ($($line:literal)*) => {
        ""
    };
}

/// Declares a module of state functions (`fn(&Exec, Args) -> Result<Ret, Error>`).
///
/// An argument without a default is required. `*rest` collects further positional arguments into
/// `args.rest`; `..kwargs` collects further keyword arguments into `args.kwargs`. A name that is a
/// Rust keyword is written `r#true`. `#[group] server: Server` declares all arguments of an
/// [`argument_group!`](crate::argument_group), which the function finds in `args.server`. The docs
/// of a function end with one example, indented as code.
///
/// After the docs of the module come, in this order and all optional: `#[needs("program",
/// "sentence", "package")]` for each program that it needs (with its Debian package, if that has
/// another name), `#[module(virtual_ = …, aggregate = …, inverses =
/// […])]`, and `#[facts(pure = …, effects = …, …)]`, the [`Facts`] about all its functions. After
/// the docs of a function comes its own `#[facts(…)]`. If the module has several parts, one of them
/// declares its needs and its `#[module(…)]`; `#[facts]` are about the functions of their part.
#[macro_export]
macro_rules! state_module {
    ($($body:tt)*) => { $crate::module! { @of $crate::module::Ret; $($body)* } };
}

/// Declares a module of execution functions, runners or wheel functions (`fn(&Exec, Args) ->
/// Result<Value, Error>`).
#[macro_export]
macro_rules! exec_module {
    ($($body:tt)*) => { $crate::module! { @of value::Value; $($body)* } };
}

/// Expands to the declaration of a module, for both macros above.
#[macro_export]
macro_rules! module {
    (
        @of $ret:ty;
        $(#[doc = $mdoc:literal])*
        $(#[needs($program:literal, $sentence:expr $(, $package:literal)?)])*
        $(#[module($($key:ident = $value:expr),*)])?
        $(#[facts($($mfact:ident = $mknown:expr),*)])?
        mod $module:ident;
        $(
            $(#[doc = $doc:literal])*
            $(#[facts($($fact:ident = $known:expr),*)])?
            fn $fun:ident($args:ident { $(
                $(#[doc = $adoc:literal])* $(#[group])? $arg:ident : $ty:ty $(= $default:expr)? ,
            )* $(* $rest:ident ,)? $(.. $kwargs:ident)? });
        )*
    ) => {
        $(
            #[derive(Debug)]
            #[allow(dead_code, reason = "some arguments are only accepted for compatibility with Salt")]
            pub(crate) struct $args {
                $( $(#[doc = $adoc])* pub(crate) $arg: $ty, )*
                $( pub(crate) $rest: Vec<value::Value>, )?
                $( pub(crate) $kwargs: value::Map, )?
            }

            impl $args {
                #[allow(unused_variables, reason = "a function may have no arguments")]
                fn taken(given: &mut $crate::module::Arguments) -> Result<Self, $crate::module::Error> {
                    let taken = Self {
                        $( $arg: $crate::module::Argument::take(given), )*
                        $( $rest: given.rest(), )?
                        $( $kwargs: given.extra(), )?
                    };
                    given.finish()?;
                    Ok(taken)
                }
            }
        )*

        /// The facts about the functions of this part.
        #[allow(dead_code, reason = "only functions with facts of their own need it")]
        const FACTS: $crate::facts::Facts = $crate::facts::Facts {
            $($( $mfact: $crate::module!(@fact $mfact $mknown), )*)?
            ..$crate::facts::Facts::UNKNOWN
        };

        /// The module's declaration.
        pub(crate) const MODULE: $crate::module::Module<$ret> = $crate::module::Module {
            name: $crate::module::bare(stringify!($module)),
            doc: $crate::doc!($($mdoc)*),
            needs: &[ $( $crate::facts::Need {
                program: $program,
                sentence: $sentence,
                package: $crate::module!(@package $($package)?),
            } ),* ],
            $($( $key: $crate::module!(@fact $key $value), )*)?
            facts: $crate::module!(@facts FACTS $($($mfact $mknown)*)?),
            functions: &[ $( $crate::module::Function {
                name: $crate::module::bare(stringify!($fun)),
                doc: $crate::doc!($($doc)*),
                args: $crate::module!(@args $( [$($adoc)*] $arg: $ty $(= $default)?, )*),
                varargs: $crate::module!(@is $($rest)?),
                extra: $crate::module!(@extra $($kwargs)?),
                facts: $crate::module!(@facts FACTS $($($fact $known)*)?),
                call: |cx, given| $fun(cx, $args::taken(given)?),
            } ),* ],
            ..$crate::module::Module::BARE
        };
    };
    (@facts $all:ident) => { None };
    (@facts $all:ident $($fact:ident $known:expr)+) => {
        Some(&$crate::facts::Facts { $( $fact: $crate::module!(@fact $fact $known), )+ ..$all })
    };
    (@fact virtual_ $value:expr) => { Some($value) };
    (@fact aggregate $value:expr) => { Some($value) };
    (@fact outputter $value:expr) => { Some($value) };
    (@fact step $value:expr) => { Some($value) };
    (@fact inverses $value:expr) => { &$value };
    (@fact $fact:ident $value:expr) => { $value };
    (@args $( [$($doc:literal)*] $arg:ident : $ty:ty $(= $default:expr)? , )*) => {{
        const FIELDS: &[($crate::module::Arg, Option<&[$crate::module::Arg]>)] = &[ $( (
            $crate::module::Arg {
                name: $crate::module::bare(stringify!($arg)),
                doc: $crate::doc!($($doc)*),
                default: $crate::module!(@default $ty, $($default)?),
            },
            <$ty as $crate::module::Argument>::GROUP,
        ) ),* ];
        const ARGS: [$crate::module::Arg; $crate::module::count(FIELDS)] =
            $crate::module::flatten(FIELDS);
        &ARGS
    }};
    (@default $ty:ty,) => { None };
    (@default $ty:ty, $default:expr) => { Some(|| $crate::module::default_value::<$ty>($default)) };
    (@package) => { None };
    (@package $package:literal) => { Some($package) };
    (@is) => { false };
    (@is $rest:ident) => { true };
    (@extra) => { $crate::module::Extra::Reject };
    (@extra $kwargs:ident) => { $crate::module::Extra::Accept };
}

/// Declares arguments that several functions have in common, and the struct that holds them.
///
/// `struct Options(Map) { … }` holds them in one dictionary, for a function that passes them on.
#[macro_export]
macro_rules! argument_group {
    (
        $(#[$meta:meta])*
        $vis:vis struct $group:ident { $(
            $(#[doc = $adoc:literal])* $(#[group])? $arg:ident : $ty:ty $(= $default:expr)? ,
        )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        #[allow(dead_code, reason = "some arguments are only accepted for compatibility with Salt")]
        $vis struct $group { $( $(#[doc = $adoc])* $vis $arg: $ty, )* }

        impl $crate::module::Argument for $group {
            const GROUP: Option<&'static [$crate::module::Arg]> =
                Some($crate::module!(@args $( [$($adoc)*] $arg: $ty $(= $default)?, )*));

            #[inline(never)]
            fn take(given: &mut $crate::module::Arguments) -> Self {
                Self { $( $arg: $crate::module::Argument::take(given), )* }
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $group:ident(Map) { $(
            $(#[doc = $adoc:literal])* $(#[group])? $arg:ident : $ty:ty $(= $default:expr)? ,
        )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $group($vis value::Map);

        impl $crate::module::Argument for $group {
            const GROUP: Option<&'static [$crate::module::Arg]> =
                Some($crate::module!(@args $( [$($adoc)*] $arg: $ty $(= $default)?, )*));

            #[inline(always)]
            fn take(given: &mut $crate::module::Arguments) -> Self {
                Self(given.take_map(Self::GROUP.unwrap_or_default()))
            }
        }
    };
}

#[cfg(test)]
mod tests;

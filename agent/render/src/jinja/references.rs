//! Calls of execution functions, to which Python passes arguments by reference: the template sees
//! the changes that a function makes to them, and a returned argument is still the same list or
//! dictionary.

use minijinja::{Error, Value};
use value::Map;

use super::args::{self, Args};
use super::containers::{Dict, from_value, to_value};
use super::errors::fault;
use super::lent::is_same;
use super::shared::Functions;
use crate::Kind;

/// Functions that return an argument, or an item of one, without a copy.
const GIVE_BACK: [&str; 6] = [
    "config.get",
    "grains.filter_by",
    "grains.get",
    "match.filter_by",
    "pillar.filter_by",
    "test.echo",
];

/// Functions of [`GIVE_BACK`] that merge `merge` into the very item that they return, followed by
/// the positions of `merge` and `base`.
const MERGE_INTO_IT: [&str; 2] = ["grains.filter_by", "pillar.filter_by"];
const MERGE: usize = 2;
const BASE: usize = 4;

/// The arguments that a template passes to an execution function.
pub(super) struct Passed<'a> {
    functions: &'a Functions,
    name: &'a str,
    args: &'a Args,
    /// The arguments as the function receives them.
    positional: Vec<value::Value>,
    named: Map,
}

impl<'a> Passed<'a> {
    /// Converts the arguments of a call.
    ///
    /// # Errors
    /// When an argument is undefined, or contains itself.
    pub(super) fn from_args(
        functions: &'a Functions,
        name: &'a str,
        args: &'a Args,
    ) -> Result<Self, Error> {
        let argument = |value: &Value| to_value(args::defined(value)?);
        let positional = args.pos().iter().map(argument);
        let named = args.all_named().iter();
        let named =
            named.map(|(key, value)| Ok((value::Value::from(key.as_str()), argument(value)?)));
        Ok(Self {
            functions,
            name,
            args,
            positional: positional.collect::<Result<_, Error>>()?,
            named: named.collect::<Result<_, Error>>()?,
        })
    }

    /// Calls the function and returns its result.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn answer(&self) -> Result<value::Value, Error> {
        self.call(self.positional.clone(), self.named.clone())
    }

    fn call(&self, positional: Vec<value::Value>, named: Map) -> Result<value::Value, Error> {
        let host = &self.functions.host;
        host.call(self.name, positional, named)
            .map_err(|sentence| fault(Kind::Call, sentence))
    }

    /// Returns the argument, or the item of one, that is the function's result, after applying the
    /// function's changes to it. `None` if the result is a new value.
    ///
    /// # Errors
    /// When the second call fails that finds out into which item `merge` was merged.
    pub(super) fn reference(&self, answer: &value::Value) -> Result<Option<Value>, Error> {
        if let Some(changed) = self.changed_in_place() {
            self.change(changed, answer);
            return Ok(Some(changed.clone()));
        }
        if !GIVE_BACK.contains(&self.name) {
            return Ok(None);
        }
        if !self.merges_into_it() {
            return Ok(self.given_back(answer));
        }
        let chosen = self.given_back(&self.without_merge()?);
        if let Some(chosen) = &chosen {
            self.change(chosen, answer);
        }
        Ok(chosen.or_else(|| self.given_back(answer)))
    }

    /// Returns the argument that the function changes and returns.
    fn changed_in_place(&self) -> Option<&'a Value> {
        let in_place = match self.name {
            "defaults.merge" | "defaults.update" => self.args.flag(3, "in_place", true),
            "slsutil.update" => true,
            _ => false,
        };
        let dest = self.args.at(0, "dest").filter(|_| in_place)?;
        dest.downcast_object_ref::<Dict>().is_some().then_some(dest)
    }

    /// Applies the function's changes to a dictionary of the template.
    fn change(&self, dict: &Value, answer: &value::Value) {
        let (Some(dict), Some(map)) = (dict.downcast_object_ref::<Dict>(), answer.as_map()) else {
            return;
        };
        match self.name {
            // This function replaces inner dictionaries by new ones.
            "defaults.update" => dict.set_all(map),
            _ => dict.updated_to(map),
        }
    }

    fn merges_into_it(&self) -> bool {
        let based = self.args.flag(BASE, "base", false);
        MERGE_INTO_IT.contains(&self.name) && self.args.flag(MERGE, "merge", false) && !based
    }

    fn without_merge(&self) -> Result<value::Value, Error> {
        let (mut positional, mut named) = (self.positional.clone(), self.named.clone());
        if let Some(merge) = positional.get_mut(MERGE) {
            *merge = value::Value::Null;
        }
        named.remove("merge");
        self.call(positional, named)
    }

    fn given_back(&self, answer: &value::Value) -> Option<Value> {
        let positional = self.args.pos().iter().zip(&self.positional);
        let named = self.args.all_named().iter().map(|(_, value)| value);
        let mut all = positional.chain(named.zip(self.named.values()));
        all.find_map(|(argument, value)| owner(argument, value, answer))
    }
}

/// Returns the argument, or the item of it, that is the result.
fn owner(argument: &Value, value: &value::Value, answer: &value::Value) -> Option<Value> {
    if is_same(value, answer) {
        return Some(argument.clone());
    }
    let dict = argument.downcast_object_ref::<Dict>()?;
    let mut items = value.as_map()?.iter();
    let (key, _) = items.find(|(_, item)| is_same(item, answer))?;
    dict.get(&from_value(key))
}

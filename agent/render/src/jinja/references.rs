//! Calls of execution functions, whose arguments Python passes by reference: a template sees what a function changes of them, and what
//! it gives back of them is the same list or dictionary still.

use minijinja::{Error, Value};
use value::Map;

use super::args::{self, Args};
use super::containers::{Dict, from_value, to_value};
use super::errors::fault;
use super::lent::is_same;
use super::shared::Functions;
use crate::Kind;

/// Functions that return an argument, or an item of one, and no copy of it.
const GIVE_BACK: [&str; 6] = [
    "config.get",
    "grains.filter_by",
    "grains.get",
    "match.filter_by",
    "pillar.filter_by",
    "test.echo",
];

/// Those of them that lay `merge` over the very item that they return, and where that and `base` stand.
const MERGE_INTO_IT: [&str; 2] = ["grains.filter_by", "pillar.filter_by"];
const MERGE: usize = 2;
const BASE: usize = 4;

/// What a template passes to an execution function.
pub(super) struct Passed<'a> {
    functions: &'a Functions,
    name: &'a str,
    args: &'a Args,
    /// The arguments as the function gets them.
    positional: Vec<value::Value>,
    named: Map,
}

impl<'a> Passed<'a> {
    /// # Errors
    /// When an argument is undefined, or holds itself.
    pub(super) fn of(
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

    /// What the function says.
    ///
    /// # Errors
    /// When it fails.
    pub(super) fn answer(&self) -> Result<value::Value, Error> {
        self.asked(self.positional.clone(), self.named.clone())
    }

    fn asked(&self, positional: Vec<value::Value>, named: Map) -> Result<value::Value, Error> {
        let host = &self.functions.host;
        host.call(self.name, positional, named)
            .map_err(|sentence| fault(Kind::Call, sentence))
    }

    /// The argument, or the item of one, that the answer is, with what the function changed of it.
    ///
    /// # Errors
    /// When the function fails that is asked whose `merge` it was.
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

    /// The argument that a function changes and returns.
    fn changed_in_place(&self) -> Option<&'a Value> {
        let in_place = match self.name {
            "defaults.merge" | "defaults.update" => self.args.flag(3, "in_place", true),
            "slsutil.update" => true,
            _ => false,
        };
        let dest = self.args.at(0, "dest").filter(|_| in_place)?;
        dest.downcast_object_ref::<Dict>().is_some().then_some(dest)
    }

    /// Makes a dictionary of the template what the function made of it.
    fn change(&self, dict: &Value, answer: &value::Value) {
        let (Some(dict), Some(map)) = (dict.downcast_object_ref::<Dict>(), answer.as_map()) else {
            return;
        };
        match self.name {
            // It puts new dictionaries in the places of those that were there.
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
        self.asked(positional, named)
    }

    fn given_back(&self, answer: &value::Value) -> Option<Value> {
        let positional = self.args.pos().iter().zip(&self.positional);
        let named = self.args.all_named().iter().map(|(_, value)| value);
        let mut all = positional.chain(named.zip(self.named.values()));
        all.find_map(|(argument, value)| owner(argument, value, answer))
    }
}

/// The argument, or the item of it, that became this answer.
fn owner(argument: &Value, value: &value::Value, answer: &value::Value) -> Option<Value> {
    if is_same(value, answer) {
        return Some(argument.clone());
    }
    let dict = argument.downcast_object_ref::<Dict>()?;
    let mut items = value.as_map()?.iter();
    let (key, _) = items.find(|(_, item)| is_same(item, answer))?;
    dict.get(&from_value(key))
}

//! Salt's filters of lists and sets.

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::super::args::{self, Args, items};
use super::super::containers::{Dict, List, Sort};
use super::super::errors::{type_error, value_error};
use super::super::methods::{self, Seen};
use super::super::print;
use super::super::strings::checked_items;
use super::Table;
use super::builtin::{number, sort_keyed, tuple};
use super::choose::plus;

/// The maximum number of values in all combinations that a template may generate.
const RESULTS_MAX: usize = 1_000_000;

/// The maximum number of values in one combination.
const LENGTH_MAX: usize = 1_000;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("unique", |_, a| {
        set_or_list(a.subject()?, None, methods::unique(items(a.subject()?)?))
    }),
    ("union", union),
    ("intersect", |_, a| {
        keep(a, |in_first, in_second| in_first && in_second)
    }),
    ("difference", |_, a| {
        keep(a, |in_first, in_second| in_first && !in_second)
    }),
    ("symmetric_difference", |_, a| {
        keep(a, |in_first, in_second| in_first != in_second)
    }),
    ("min", |_, a| extreme(a, false)),
    ("max", |_, a| extreme(a, true)),
    ("avg", avg),
    ("flatten", |_, a| {
        Ok(List::value(flatten(
            a.subject()?,
            levels(a)?,
            a.flag(2, "preserve_nulls", false),
            0,
            &mut 0,
        )?))
    }),
    ("is_list", |_, a| {
        Ok(Value::from(print::type_name(a.subject()?) == "list"))
    }),
    ("is_iter", |_, a| {
        Ok(Value::from(
            a.subject()?.as_str().is_none() && args::iterable(a.subject()?),
        ))
    }),
    ("sequence", sequence),
    ("sorted_ignorecase", sorted_ignorecase),
    ("compare_lists", compare_lists),
    ("exactly_n_true", |_, a| {
        exactly(
            a,
            usize::try_from(a.int_or(1, "amount", 1)?).unwrap_or(usize::MAX),
        )
    }),
    ("exactly_one_true", |_, a| exactly(a, 1)),
    ("zip", |_, a| zip(a, None)),
    ("zip_longest", |_, a| {
        zip(
            a,
            Some(
                a.named("fillvalue")
                    .cloned()
                    .unwrap_or_else(|| Value::from(())),
            ),
        )
    }),
    ("product", product),
    ("permutations", |_, a| choices(a, Choice::Permutations)),
    ("combinations", |_, a| choices(a, Choice::Combinations)),
    ("combinations_with_replacement", |_, a| {
        choices(a, Choice::WithReplacement)
    }),
    ("compress", compress),
];

/// Returns a set for immutable arguments and a list for lists, as Python's set functions do.
fn set_or_list(first: &Value, second: Option<&Value>, items: Vec<Value>) -> Result<Value, Error> {
    let fixed = |value: &Value| value.is_tuple() || value.as_str().is_some();
    let sort = if fixed(first) && second.is_none_or(fixed) {
        Sort::Set
    } else {
        Sort::List
    };
    Ok(List::with_sort(sort, items))
}

fn union(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (first, second) = (args.subject()?, args.need(1, "lst2")?);
    let both = items(first)?.into_iter().chain(items(second)?);
    set_or_list(first, Some(second), methods::unique(both))
}

fn keep(args: &Args, wanted: fn(bool, bool) -> bool) -> Result<Value, Error> {
    let (first, second) = (args.subject()?, args.need(1, "lst2")?);
    let (a, b) = (items(first)?, items(second)?);
    let both = methods::unique(a.iter().chain(&b).cloned());
    let (a, b) = (Seen::from_items(&a), Seen::from_items(&b));
    let kept = both
        .into_iter()
        .filter(|item| wanted(a.has(item), b.has(item)))
        .collect();
    set_or_list(first, Some(second), kept)
}

fn extreme(args: &Args, largest: bool) -> Result<Value, Error> {
    let items = items(args.subject()?)?;
    let sorted = methods::sorted(items, false)?;
    let found = if largest {
        sorted.last()
    } else {
        sorted.first()
    };
    found.cloned().ok_or_else(|| {
        value_error(format!(
            "{}() arg is an empty sequence",
            if largest { "max" } else { "min" }
        ))
    })
}

fn avg(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    if value.is_number() || value.as_str().is_some() {
        let number = number(&print::str(value));
        return number.map(Value::from).ok_or_else(|| {
            value_error(format!(
                "could not convert string to float: {}",
                print::repr(value)
            ))
        });
    }
    let items = items(value)?;
    let mut total = Value::from(0);
    for item in &items {
        total = plus(&total, item)?;
    }
    if items.is_empty() {
        return Err(value_error("division by zero"));
    }
    Ok(Value::from(f64::try_from(total)? / items.len() as f64))
}

fn levels(args: &Args) -> Result<Option<i64>, Error> {
    match args.at(1, "levels").filter(|levels| !levels.is_none()) {
        Some(levels) => args::int(levels).map(Some),
        None => Ok(None),
    }
}

fn flatten(
    value: &Value,
    levels: Option<i64>,
    nulls: bool,
    depth: usize,
    count: &mut usize,
) -> Result<Vec<Value>, Error> {
    if depth > 100 {
        return Err(value_error("Reference cycle detected. Check input list."));
    }
    let mut flat = Vec::new();
    for item in items(value)? {
        *count += 1;
        checked_items(*count)?;
        let null = item.is_none() || matches!(item.as_str(), Some("None" | "null"));
        if null && !nulls {
            continue;
        }
        let iterable = item.as_str().is_none() && args::iterable(&item);
        if iterable && levels.is_none_or(|levels| levels >= 1) {
            flat.extend(flatten(
                &item,
                levels.map(|levels| levels - 1),
                nulls,
                depth + 1,
                count,
            )?);
        } else {
            flat.push(item);
        }
    }
    Ok(flat)
}

fn sequence(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Map) {
        return Ok(value.clone());
    }
    Ok(List::value(vec![value.clone()]))
}

fn sorted_ignorecase(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let items = items(args.subject()?)?;
    let mut keyed: Vec<_> = items
        .into_iter()
        .map(|item| (Value::from(print::str(&item).to_lowercase()), item))
        .collect();
    sort_keyed(&mut keyed, false)?;
    Ok(List::value(
        keyed.into_iter().map(|(_, item)| item).collect(),
    ))
}

fn compare_lists(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (old, new) = (items(args.need(0, "old")?)?, items(args.need(1, "new")?)?);
    let only = |a: &[Value], b: &[Value]| {
        let b = Seen::from_items(b);
        a.iter()
            .filter(|item| !b.has(item))
            .cloned()
            .collect::<Vec<_>>()
    };
    let changes = [("new", only(&new, &old)), ("old", only(&old, &new))];
    let entries = changes.into_iter().filter(|(_, items)| !items.is_empty());
    Ok(Dict::value(
        entries
            .map(|(key, items)| (Value::from(key), List::value(items)))
            .collect(),
    ))
}

fn exactly(args: &Args, amount: usize) -> Result<Value, Error> {
    let true_ones = items(args.subject()?)?
        .iter()
        .filter(|item| item.is_true())
        .count();
    Ok(Value::from(true_ones == amount))
}

fn columns(args: &Args) -> Result<Vec<Vec<Value>>, Error> {
    args.pos().iter().map(items).collect()
}

fn zip(args: &Args, fill: Option<Value>) -> Result<Value, Error> {
    let columns = columns(args)?;
    let lengths = columns.iter().map(Vec::len);
    let rows = if fill.is_some() {
        lengths.max()
    } else {
        lengths.min()
    }
    .unwrap_or(0);
    let fill = fill.unwrap_or_default();
    let row = |row| {
        tuple(
            columns
                .iter()
                .map(|column| column.get(row).cloned().unwrap_or_else(|| fill.clone()))
                .collect(),
        )
    };
    Ok(List::value((0..rows).map(row).collect()))
}

fn limited(count: usize, length: usize) -> Result<(), Error> {
    if length > LENGTH_MAX || count.saturating_mul(length.max(1)) > RESULTS_MAX {
        return Err(value_error(format!(
            "The template asks for combinations with more than {RESULTS_MAX} values in total, or {LENGTH_MAX} in one"
        )));
    }
    Ok(())
}

fn product(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let repeat = usize::try_from(args.named("repeat").map_or(Ok(1), args::int)?).unwrap_or(0);
    let columns = columns(args)?;
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for column in std::iter::repeat_n(&columns, repeat).flatten() {
        let length = rows.first().map_or(0, Vec::len) + 1;
        limited(rows.len().saturating_mul(column.len()), length)?;
        rows = rows
            .iter()
            .flat_map(|row| {
                column
                    .iter()
                    .map(move |item| row.iter().cloned().chain([item.clone()]).collect())
            })
            .collect();
        if rows.is_empty() {
            break;
        }
    }
    Ok(List::value(rows.into_iter().map(tuple).collect()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Permutations,
    Combinations,
    WithReplacement,
}

fn choices(args: &Args, choice: Choice) -> Result<Value, Error> {
    let items = items(args.subject()?)?;
    let length = match args.at(1, "r").filter(|r| !r.is_none()) {
        Some(length) => usize::try_from(args::int(length)?)
            .map_err(|_| value_error("r must be non-negative"))?,
        None if choice == Choice::Permutations => items.len(),
        None => {
            return Err(type_error(
                "combinations() missing required argument 'r' (pos 2)",
            ));
        }
    };
    if length > items.len() && choice != Choice::WithReplacement {
        return Ok(List::value(Vec::new()));
    }
    limited(1, length)?;
    let mut chooser = Chooser {
        used: vec![false; items.len()],
        items,
        length,
        choice,
        chosen: Vec::new(),
        found: Vec::new(),
    };
    chooser.extend()?;
    Ok(List::value(chooser.found))
}

struct Chooser {
    items: Vec<Value>,
    length: usize,
    choice: Choice,
    /// The indices chosen so far, and for each index whether it is among them.
    chosen: Vec<usize>,
    used: Vec<bool>,
    found: Vec<Value>,
}

impl Chooser {
    fn extend(&mut self) -> Result<(), Error> {
        if self.chosen.len() == self.length {
            return self.find();
        }
        for at in self.first()..self.end() {
            if self.choice == Choice::Permutations && self.used.get(at) == Some(&true) {
                continue;
            }
            self.mark(at, true);
            self.chosen.push(at);
            self.extend()?;
            self.chosen.pop();
            self.mark(at, false);
        }
        Ok(())
    }

    fn find(&mut self) -> Result<(), Error> {
        limited(self.found.len() + 1, self.length)?;
        let item = |at: &usize| self.items.get(*at).cloned();
        self.found
            .push(tuple(self.chosen.iter().filter_map(item).collect()));
        Ok(())
    }

    fn first(&self) -> usize {
        match (self.choice, self.chosen.last()) {
            (Choice::Combinations, Some(last)) => last + 1,
            (Choice::WithReplacement, Some(last)) => *last,
            _ => 0,
        }
    }

    /// Returns the end of the range of indices that leave enough items for the remaining choices.
    fn end(&self) -> usize {
        let others = match self.choice {
            Choice::Combinations => self.length - self.chosen.len() - 1,
            _ => 0,
        };
        self.items.len().saturating_sub(others)
    }

    fn mark(&mut self, at: usize, used: bool) {
        if let Some(mark) = self.used.get_mut(at) {
            *mark = used;
        }
    }
}

fn compress(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let (data, selectors) = (items(args.subject()?)?, items(args.need(1, "selectors")?)?);
    let kept = data
        .into_iter()
        .zip(selectors)
        .filter(|(_, selector)| selector.is_true());
    Ok(List::value(kept.map(|(item, _)| item).collect()))
}

//! Tests that the cost of a template depends on the work it does, not on the size of the data it
//! reads.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;

use render::{Context, Host, jinja};
use value::{Map, Value};

struct Functions(Map);

impl Host for Functions {
    fn call(&self, function: &str, args: Vec<Value>, _: Map) -> Result<Value, String> {
        assert_eq!(function, "pillar.get");
        let path = args.first().and_then(Value::as_str).unwrap_or_default();
        let pillar = Value::Map(self.0.clone());
        Ok(pillar.traverse(path, ":").cloned().unwrap_or_default())
    }

    fn has_function(&self, _: &str) -> bool {
        true
    }

    fn template(&self, _: &str, _: &str) -> Result<Option<Arc<str>>, String> {
        Ok(None)
    }

    fn pillar(&self) -> Option<Map> {
        Some(self.0.clone())
    }
}

/// Returns a pillar with `count` users, each of them a dictionary.
fn users(count: usize) -> Map {
    let user = |n| Map::new().with("home", format!("/home/{n}"));
    let users = (0..count).map(|n| (format!("u{n}"), user(n)));
    Map::new().with("users", users.collect::<Value>())
}

/// Returns the processor time of this thread, which does not depend on the load of the machine.
fn spent() -> u64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    said.split(' ').next().unwrap().parse().unwrap()
}

/// Returns the total cost of several renderings. The kernel counts in steps of milliseconds, so
/// many are needed.
fn cost(template: &str, pillar: &Map, times: usize) -> u64 {
    let host: Arc<dyn Host> = Arc::new(Functions(pillar.clone()));
    let context = Context {
        name: "t.sls".into(),
        variables: Map::new().with("pillar", pillar.clone()),
        ..Context::default()
    };
    let before = spent();
    for _ in 0..times {
        jinja::render(template, &context, &host).unwrap();
    }
    spent() - before
}

/// Compares two costs of the same number of steps in total. A cost that grows with the square of
/// the size would be ten times as high for the large one.
fn check(small: u64, large: u64) {
    assert!(small > 0, "the time is not counted");
    assert!(large < small * 4, "{small} ns became {large} ns");
}

#[test]
fn a_look_up_in_a_loop_does_not_cost_what_it_looks_into() {
    let template = |count| {
        format!(
            "{{% for n in range({count}) %}}{{{{ salt['pillar.get']('users:u' ~ n ~ ':home') }}}}{{% endfor %}}"
        )
    };
    let small = cost(&template(400), &users(400), 20);
    check(small, cost(&template(4_000), &users(4_000), 2));
}

#[test]
fn a_look_up_below_a_large_dictionary_costs_the_same_as_below_a_small_one() {
    let template = "{{ pillar['users']['u5']['home'] }}";
    let (small, large) = (users(100), users(10_000));
    check(cost(template, &small, 1_000), cost(template, &large, 1_000));
}

#[test]
fn a_list_that_grows_by_addition_is_not_copied_each_time() {
    let template = |count| {
        format!(
            "{{% set ns = namespace(l=[]) %}}{{% for i in range({count}) %}}{{% set ns.l = ns.l + [i] %}}{{% endfor %}}{{{{ ns.l|length }}}}"
        )
    };
    let small = cost(&template(1_000), &Map::new(), 20);
    check(small, cost(&template(10_000), &Map::new(), 2));
}

//! Runs many minions in one process, to measure the load that a master can bear. Each minion has
//! its own key and connection, and does `test.ping`.
//!
//! `load MASTER[:PORT] FOLDER MINIONS [SECONDS [NAME]]`: the minions connect together, or one after
//! the other within SECONDS. Their ids begin with NAME (default: `load`). If NAME is given, each
//! minion has its own socket, and none waits until the master accepts another one.
//!
//! The program then reads commands from stdin, and answers each with one line on stdout:
//! `events COUNT [RATE]` makes the minions send COUNT events in all, as fast as they can or RATE a
//! second, and waits until all are acked. `latency COUNT` sends COUNT events, each when the one before
//! it is acked. `back` waits until all minions have connected again since
//! the last command.
#![allow(
    clippy::let_underscore_must_use,
    clippy::print_stdout,
    reason = "this program prints its figures on stdout, and its minions go as they like"
)]

mod fleet;
mod minion;

use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

use fleet::{Fleet, Many};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [master, folder, minions, more @ ..] = words.as_slice() else {
        return Err("usage: load MASTER[:PORT] FOLDER MINIONS [SECONDS [NAME]]".into());
    };
    let seconds = more.first().map_or(Ok(0.0), |seconds| seconds.parse())?;
    let many = Many {
        name: more.get(1).map_or("load", String::as_str),
        count: minions.parse()?,
        within: Duration::from_secs_f64(seconds),
        is_each_alone: more.len() > 1,
    };
    let master = link::Master::parse(master, link::PORT);
    let fleet = Fleet::start(&master, Path::new(folder), &many)?;
    println!("{}", smol::block_on(fleet.connected(0))?);
    let mut made = fleet.made();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let said = match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["events", count] => smol::block_on(fleet.send(count.parse()?, None))?,
            ["events", count, rate] => {
                smol::block_on(fleet.send(count.parse()?, Some(rate.parse()?)))?
            }
            ["latency", count] => smol::block_on(fleet.latency(count.parse()?))?,
            ["back"] => smol::block_on(fleet.connected(made))?,
            other => return Err(format!("unknown command: {other:?}").into()),
        };
        println!("{said}");
        made = fleet.made();
    }
    Ok(())
}

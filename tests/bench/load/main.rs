//! Many minions in one process, to see what a master bears: each has a key and a connection of its own, and does `test.ping`.
//!
//! `load MASTER[:PORT] FOLDER MINIONS`, then commands on stdin: `events COUNT` has them send that many together and waits until all are
//! acked; `back` waits until all have connected again since the last command. Each command answers with one line on stdout.
#![allow(
    clippy::print_stdout,
    reason = "figures on stdout are what this program is for"
)]

mod fleet;
mod minion;

use std::error::Error;
use std::io::BufRead;
use std::path::Path;

use fleet::Fleet;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [master, folder, minions] = words.as_slice() else {
        return Err("usage: load MASTER[:PORT] FOLDER MINIONS".into());
    };
    let master = link::Master::parse(master, link::PORT);
    let fleet = Fleet::start(master, Path::new(folder), minions.parse()?)?;
    println!("{}", smol::block_on(fleet.connected(0))?);
    let mut made = fleet.made();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let said = match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["events", count] => smol::block_on(fleet.send(count.parse()?))?,
            ["back"] => smol::block_on(fleet.connected(made))?,
            other => return Err(format!("no command: {other:?}").into()),
        };
        println!("{said}");
        made = fleet.made();
    }
    Ok(())
}

//! The `at` execution module: commands that run once, at a later time.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

state::exec_module! {
    /// Manage commands that run once, at a later time (`at`).
    #[needs("at", "The at module could not be loaded: at command not found")]
    mod at;

    /// Return the queued jobs. With `tag`, return only the jobs with this tag or number.
    ///
    ///     salt-call at.atq
    fn atq(Atq {
        /// The tag or the number of a job.
        tag: Value = Value::Null,
    });

    /// Remove jobs by their numbers. `all` removes all jobs; `all` followed by a tag removes the
    /// jobs with this tag.
    ///
    ///     salt-call at.atrm 3
    fn atrm(Atrm {
        *args,
    });

    /// Add a job. The first argument is the time, the second one the command. `tag` names the job,
    /// and `runas` is the user who runs it.
    ///
    ///     salt-call at.at '18:00 tomorrow' /usr/local/bin/report tag=report
    fn at(At {
        *args,
        ..kwargs
    });

    /// Return the script that a job will run.
    ///
    ///     salt-call at.atc 3
    fn atc(Atc {
        /// The number of the job.
        jobid: Value,
    });

    /// Return the jobs that match a `tag`, a user (`runas`), an `hour`, `minute`, `day`, `month` or
    /// `year`.
    ///
    ///     salt-call at.jobcheck tag=report
    fn jobcheck(Jobcheck {
        ..kwargs
    });
}

/// The prefix of the line that stores a job's tag in its script.
const TAG: &str = "### SALT: ";

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

fn run<const N: usize>(cx: &Exec, words: [&str; N]) -> Result<Output, Error> {
    Process::words(words).quiet().run(cx)
}

/// Returns the day, time, queue and user of a job, parsed from the text after its number in the
/// output of `atq`.
fn parse_spec(spec: &str) -> Option<[String; 4]> {
    let words: Vec<&str> = spec.split_whitespace().collect();
    let own = |text: &str| text.to_owned();
    match words[..] {
        [_, month, day, time, year, queue, user] => {
            let month = MONTHS.iter().position(|known| *known == month)? + 1;
            let day: u32 = day.parse().ok()?;
            Some([
                format!("{year}-{month:02}-{day:02}"),
                own(time),
                own(queue),
                own(user),
            ])
        }
        [day, time, queue, user] => Some([day, time, queue, user].map(own)),
        _ => None,
    }
}

/// Returns all queued jobs.
fn jobs(cx: &Exec) -> Result<Vec<Map>, Error> {
    let mut jobs = Vec::new();
    let queue = run(cx, ["atq"])?.stdout_of_success("atq")?;
    for line in queue.lines() {
        let parts = line.split_once('\t');
        let known = parts.and_then(|(number, spec)| {
            Some((number.trim().parse::<i64>().ok()?, parse_spec(spec)?))
        });
        let Some((number, [date, time, queue, user])) = known else {
            return Err(format!("cannot parse the atq line {line:?}").into());
        };
        // The job may have begun meanwhile. It then has no script any more.
        let script = run(cx, ["at", "-c", &number.to_string()])?.into_stdout_regardless();
        let mut tags = script.lines().filter_map(|line| line.strip_prefix(TAG));
        let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
        let tag = tags
            .next_back()
            .map(|tag| tag.chars().take_while(is_word).collect::<String>());
        jobs.push(
            Map::new()
                .with("job", number)
                .with("date", date)
                .with("time", time)
                .with("queue", queue)
                .with("user", user)
                .with("tag", tag.unwrap_or_default()),
        );
    }
    Ok(jobs)
}

fn answer(jobs: Vec<Map>) -> Map {
    Map::new().with("jobs", Value::list(jobs.into_iter().map(Value::from)))
}

/// Returns the jobs with this tag or number. Returns all jobs if `tag` is empty.
///
/// # Errors
/// When the jobs cannot be listed.
pub(crate) fn find(cx: &Exec, tag: &Value) -> Result<Vec<Map>, Error> {
    let mut jobs = jobs(cx)?;
    if tag.is_true() {
        let wanted = python::str(tag);
        jobs.retain(|job| ["tag", "job"].iter().any(|key| text(job, key) == wanted));
    }
    Ok(jobs)
}

fn text(job: &Map, key: &str) -> String {
    job.get(key).map(python::str).unwrap_or_default()
}

/// Returns the jobs that match all given criteria.
///
/// # Errors
/// When the jobs cannot be listed, or a value is not a number.
pub(crate) fn matching(cx: &Exec, wanted: &Map) -> Result<Vec<Map>, Error> {
    let given = |key: &'static str| {
        wanted
            .get(key)
            .filter(|value| value.is_true())
            .map(python::str)
    };
    let two = |key: &'static str| match given(key) {
        Some(text) => match text.trim().parse::<u32>() {
            Ok(number) => Ok(Some(format!("{number:02}"))),
            Err(_) => Err(Error::argument(
                key,
                format!("expected a number, got {text}"),
            )),
        },
        None => Ok(None),
    };
    let year = given("year").map(|year| {
        if year.len() == 2 {
            format!("20{year}")
        } else {
            year
        }
    });
    let numbers = [
        two("hour")?,
        two("minute")?,
        year,
        two("month")?,
        two("day")?,
    ];
    let (user, tag) = (given("runas"), given("tag"));
    let is_it = |job: &Map| {
        let (date, time) = (text(job, "date"), text(job, "time"));
        let own = time.split(':').take(2).chain(date.split('-'));
        let same =
            |(wanted, own): (&Option<String>, &str)| wanted.as_ref().is_none_or(|it| it == own);
        numbers.iter().zip(own).all(same)
            && same((&user, &text(job, "user")))
            && same((&tag, &text(job, "tag")))
    };
    let mut jobs = jobs(cx)?;
    jobs.retain(is_it);
    Ok(jobs)
}

/// Removes jobs by their numbers, and returns the numbers.
///
/// # Errors
/// When a job cannot be removed.
pub(crate) fn remove(cx: &Exec, jobs: &[Map]) -> Result<Vec<String>, Error> {
    let numbers: Vec<String> = jobs.iter().map(|job| text(job, "job")).collect();
    if !numbers.is_empty() {
        let words = ["at".to_owned(), "-d".to_owned()];
        let done = Process::words(words.into_iter().chain(numbers.iter().cloned())).run(cx)?;
        if !done.success() {
            return Err(done.stderr.into());
        }
    }
    Ok(numbers)
}

/// Adds a job. Returns the job, or the reason why the time is invalid.
///
/// # Errors
/// When the program is missing, or its output is not understood.
pub(crate) fn add(
    cx: &Exec,
    when: &str,
    command: &str,
    tag: Option<&str>,
    runas: Option<&str>,
) -> Result<Result<Vec<Map>, &'static str>, Error> {
    if when.starts_with('-') {
        return Ok(Err("invalid timespec"));
    }
    let tag = tag.map_or_else(String::new, |tag| format!("{TAG}{tag}\n"));
    let process = Process {
        stdin: Some(format!("{tag}{command}\n")),
        runas: runas.map(str::to_owned),
        ..Process::words(["at", when])
    };
    let done = process.run(cx)?;
    let said = format!("{}\n{}", done.stdout_regardless(), done.stderr);
    let number = said.lines().find_map(|line| {
        line.strip_prefix("job ")?
            .split(' ')
            .next()?
            .parse::<i64>()
            .ok()
    });
    match number {
        Some(number) => find(cx, &number.into()).map(Ok),
        None if said.contains("Garbled time") => Ok(Err("invalid timespec")),
        None => Err(format!("at: {}", said.trim()).into()),
    }
}

fn atq(cx: &Exec, args: Atq) -> Result<Value, Error> {
    Ok(answer(find(cx, &args.tag)?).into())
}

fn atrm(cx: &Exec, args: Atrm) -> Result<Value, Error> {
    let words: Vec<String> = args.args.iter().map(python::str).collect();
    let (jobs, tag) = match words.first().map(String::as_str) {
        None => (Vec::new(), Value::Null),
        Some("all") => {
            let tag = args.args.get(1).cloned().unwrap_or_default();
            (find(cx, &tag)?, tag)
        }
        Some(_) => {
            let mut all = jobs(cx)?;
            all.retain(|job| words.contains(&text(job, "job")));
            (all, Value::Null)
        }
    };
    let removed = Map::new().with("removed", remove(cx, &jobs)?);
    Ok(Map::new().with("jobs", removed.with("tag", tag)).into())
}

fn at(cx: &Exec, args: At) -> Result<Value, Error> {
    let words: Vec<String> = args.args.iter().map(python::str).collect();
    let [when, command @ ..] = &words[..] else {
        return Ok(answer(Vec::new()).into());
    };
    if command.is_empty() {
        return Ok(answer(Vec::new()).into());
    }
    let option = |key: &str| {
        args.kwargs
            .get(key)
            .filter(|value| !value.is_null())
            .map(python::str)
    };
    let (tag, runas) = (option("tag"), option("runas"));
    Ok(
        match add(
            cx,
            when,
            &command.join(" "),
            tag.as_deref(),
            runas.as_deref(),
        )? {
            Ok(jobs) => answer(jobs).into(),
            Err(why) => answer(Vec::new()).with("error", why).into(),
        },
    )
}

fn atc(cx: &Exec, args: Atc) -> Result<Value, Error> {
    let number = python::str(&args.jobid);
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let script = if is_number {
        run(cx, ["at", "-c", &number])?.into_stdout_regardless()
    } else {
        String::new()
    };
    Ok(match script.is_empty() {
        true => Map::new()
            .with("error", format!("invalid job id '{number}'"))
            .into(),
        false => script.into(),
    })
}

fn jobcheck(cx: &Exec, args: Jobcheck) -> Result<Value, Error> {
    if args.kwargs.is_empty() {
        return Ok(Map::new()
            .with("error", "You have given a condition")
            .into());
    }
    let (all, found) = (jobs(cx)?, matching(cx, &args.kwargs)?);
    let is_none = found.is_empty() && !all.is_empty();
    let answer = answer(found);
    Ok(match is_none {
        true => answer
            .with("note", "No match jobs or time format error")
            .into(),
        false => answer.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_in_two_ways() {
        let wanted = ["2026-11-03", "05:10:00", "a", "root"].map(str::to_owned);
        assert_eq!(
            parse_spec("Tue Nov  3 05:10:00 2026 a root"),
            Some(wanted.clone())
        );
        assert_eq!(parse_spec("2026-11-03 05:10:00 a root"), Some(wanted));
        assert_eq!(parse_spec("soon"), None);
    }
}

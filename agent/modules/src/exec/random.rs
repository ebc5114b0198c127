//! The `random` execution module.

use machine::accounts::crypt;
use machine::hashes;
use python::base64;
use python::random::Mersenne;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, random};

state::exec_module! {
    /// Provides access to randomness generators.
    mod random;

    /// Return the hash of a value in hexadecimal.
    ///
    ///     salt-call random.hash secret sha256
    #[facts(pure = true)]
    fn hash(Hash {
        /// The value to hash.
        value: Value,
        /// The algorithm: md5, sha1, sha224, sha256, sha384 or sha512.
        algorithm: String = "sha512".into(),
    });

    /// Return the hash of a password in the format of the shadow file.
    ///
    ///     salt-call random.shadow_hash password=S3cret
    #[facts(pure = true)]
    fn shadow_hash(ShadowHash {
        /// The salt; random if not given.
        crypt_salt: Option<String> = None,
        /// The password; random if not given.
        password: Option<String> = None,
        /// The algorithm: sha512, sha256 or md5.
        algorithm: String = "sha512".into(),
    });

    /// Encode a value.
    ///
    ///     salt-call random.str_encode secret base64
    fn str_encode(StrEncode {
        /// The value to encode.
        value: Value,
        /// The encoding; only base64.
        encoder: String = "base64".into(),
    });

    /// Return a random string.
    ///
    ///     salt-call random.get_str 20
    #[facts(pure = true)]
    fn get_str(GetStr {
        /// The number of characters.
        length: i64 = 20,
        /// The characters to choose from; the following arguments are then ignored.
        chars: Option<String> = None,
        /// True to include lower case letters.
        lowercase: bool = true,
        /// True to include upper case letters.
        uppercase: bool = true,
        /// True to include digits.
        digits: bool = true,
        /// True to include punctuation.
        punctuation: bool = true,
        /// True to include white space.
        whitespace: bool = false,
        /// True to choose from all printable characters, regardless of the other arguments.
        printable: bool = false,
    });

    /// Return a random integer in a range that includes both ends.
    ///
    ///     salt-call random.rand_int 1 6
    #[facts(pure = true)]
    fn rand_int(RandInt {
        /// The lowest number.
        start: i64 = 1,
        /// The highest number.
        end: i64 = 10,
        /// A seed; the same seed gives the same number.
        seed: Value = Value::Null,
    });

    /// Return an integer from 0 to below the range that is always the same on one machine.
    ///
    ///     salt-call random.seed 60
    #[facts(pure = true)]
    fn seed(Seed {
        /// The upper end of the range, which is excluded.
        range: i64 = 10,
        /// The value to derive the number from, instead of the minion ID.
        hash: Value = Value::Null,
    });

    /// Return a random sample of a list.
    ///
    ///     salt-call random.sample '[web1, web2, web3]' 2
    fn sample(Sample {
        /// The list.
        value: Value,
        /// The number of items.
        size: i64,
        /// A seed; the same seed gives the same sample.
        seed: Value = Value::Null,
    });

    /// Return a list in random order.
    ///
    ///     salt-call random.shuffle '[web1, web2, web3]'
    fn shuffle(Shuffle {
        /// The list.
        value: Value,
        /// A seed; the same seed gives the same order.
        seed: Value = Value::Null,
    });
}

fn data(value: &Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => other.to_text().into_bytes(),
    }
}

fn hash(_cx: &Exec, args: Hash) -> Result<Value, Error> {
    hashed(&args.value, &args.algorithm).map(Value::from)
}

fn hashed(value: &Value, algorithm: &str) -> Result<String, Error> {
    if !hashes::TYPES.iter().any(|(known, _)| *known == algorithm) {
        return Err("You must specify a valid algorithm.".into());
    }
    match value {
        Value::Str(_) | Value::Bytes(_) => hashes::of_bytes(&data(value), algorithm),
        _ => Err("object supporting the buffer API required".into()),
    }
}

fn str_encode(_cx: &Exec, args: StrEncode) -> Result<Value, Error> {
    if args.encoder != "base64" {
        return Err("You must specify a valid encoder".into());
    }
    Ok(base64::encode(&data(&args.value)).into())
}

const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
const WHITESPACE: &str = " \t\n\r\u{b}\u{c}";
const LENGTH_MAX: usize = 1 << 20;

fn shadow_hash(cx: &Exec, args: ShadowHash) -> Result<Value, Error> {
    let password = match args.password {
        Some(password) => password,
        None => cx
            .call_internal("random.get_str", Vec::new(), Map::new())?
            .to_text(),
    };
    Ok(crypt::hash(&password, args.crypt_salt.as_deref(), &args.algorithm)?.into())
}

fn get_str(_cx: &Exec, args: GetStr) -> Result<Value, Error> {
    let allowed = allowed(&args);
    if !allowed.is_ascii() || allowed.is_empty() {
        return Err(
            "the characters of a random string must be ASCII, and at least one must be allowed"
                .into(),
        );
    }
    let length = usize::try_from(args.length).unwrap_or_default();
    if length > LENGTH_MAX {
        return Err(Error::refused(format!(
            "a random string can have at most {LENGTH_MAX} characters"
        )));
    }
    let mut text = String::with_capacity(length);
    while text.len() < length {
        for byte in random::array::<256>()? {
            if text.len() < length && byte.is_ascii() && allowed.contains(char::from(byte)) {
                text.push(char::from(byte));
            }
        }
    }
    Ok(text.into())
}

fn allowed(args: &GetStr) -> String {
    let letters = |first: char, last: char| (first..=last).collect::<String>();
    let digits = || letters('0', '9');
    if args.printable {
        let alphabet = letters('a', 'z') + &letters('A', 'Z');
        return digits() + &alphabet + PUNCTUATION + WHITESPACE;
    }
    let given = args.chars.clone().filter(|chars| !chars.is_empty());
    given.unwrap_or_else(|| {
        [
            (args.lowercase, letters('a', 'z')),
            (args.uppercase, letters('A', 'Z')),
            (args.digits, digits()),
            (args.punctuation, PUNCTUATION.into()),
            (args.whitespace, WHITESPACE.into()),
        ]
        .into_iter()
        .filter_map(|(wanted, chars)| wanted.then_some(chars))
        .collect()
    })
}

fn seeded(seed: &Value) -> Result<Mersenne, Error> {
    Mersenne::seeded(seed)
        .ok_or_else(|| Error::refused("a seed must be an integer or a string".into()))
}

fn rand_int(_cx: &Exec, args: RandInt) -> Result<Value, Error> {
    let width = args.end.checked_sub(args.start).filter(|width| *width >= 0);
    let Some(width) = width.and_then(|width| u64::try_from(width).ok()) else {
        let (start, end) = (args.start, args.end.saturating_add(1));
        return Err(Error::refused(format!(
            "empty range for randrange() ({start}, {end}, {})",
            end.saturating_sub(start)
        )));
    };
    let number = if args.seed.is_null() {
        random::below(width + 1)?
    } else {
        seeded(&args.seed)?.below(width + 1)
    };
    Ok((args.start + i64::try_from(number).unwrap_or_default()).into())
}

fn seed(cx: &Exec, args: Seed) -> Result<Value, Error> {
    let end = u64::try_from(args.range).ok().filter(|range| *range > 0);
    let end = end.ok_or("empty range for randrange()")?;
    let seed = if args.hash.is_null() {
        Value::from(cx.opts().id())
    } else {
        args.hash
    };
    Ok(seeded(&seed)?.below(end).into())
}

fn sample(_cx: &Exec, args: Sample) -> Result<Value, Error> {
    sampled(&args.value, usize::try_from(args.size).ok(), &args.seed)
}

fn shuffle(_cx: &Exec, args: Shuffle) -> Result<Value, Error> {
    let size = items(&args.value).len();
    sampled(&args.value, Some(size), &args.seed)
}

fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Str(text) => text.chars().map(|c| c.to_string().into()).collect(),
        other => other.as_list().unwrap_or_default().to_vec(),
    }
}

fn sampled(value: &Value, size: Option<usize>, seed: &Value) -> Result<Value, Error> {
    let items = items(value);
    let size = size.filter(|size| *size <= items.len());
    let size = size.ok_or("Sample larger than population or is negative")?;
    if !seed.is_null() {
        let mut source = seeded(&hashed(seed, "sha512")?.into())?;
        return Ok(Value::list(python::random::sample(&items, size, |end| {
            source.below(end)
        })));
    }
    let mut failed = None;
    let chosen = python::random::sample(&items, size, |end| {
        random::below(end).unwrap_or_else(|error| {
            failed = Some(error);
            0
        })
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Value::list(chosen)),
    }
}

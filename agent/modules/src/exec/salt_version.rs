//! The `salt_version` execution module: compares the Salt version that this program behaves as with
//! a named release.

use std::cmp::Ordering;

use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::test::salt_version;
use crate::exec::pkg::version;

state::exec_module! {
    /// Compare Salt releases by name. This program behaves as the version in the grain
    /// `saltversion`.
    mod salt_version;

    /// Return the version number of a named Salt release, or None if there is no release of that
    /// name.
    ///
    ///     salt-call salt_version.get_release_number Argon
    fn get_release_number(GetReleaseNumber {
        /// The name of the release, such as argon.
        name: Value,
    });

    /// True when this program behaves as the named release.
    ///
    ///     salt-call salt_version.equal Argon
    fn equal(Equal {
        /// The name of the release, such as argon.
        name: Value,
    });

    /// True when this program behaves as a newer release than the named one.
    ///
    ///     salt-call salt_version.greater_than Sulfur
    fn greater_than(GreaterThan {
        /// The name of the release, such as argon.
        name: Value,
    });

    /// True when this program behaves as an older release than the named one.
    ///
    ///     salt-call salt_version.less_than Potassium
    fn less_than(LessThan {
        /// The name of the release, such as argon.
        name: Value,
    });
}

/// The names of the releases that are numbered by year and month.
const DATED: &[(&str, &str)] = &[
    ("hydrogen", "2014.1"),
    ("helium", "2014.7"),
    ("lithium", "2015.5"),
    ("beryllium", "2015.8"),
    ("boron", "2016.3"),
    ("carbon", "2016.11"),
    ("nitrogen", "2017.7"),
    ("oxygen", "2018.3"),
    ("fluorine", "2019.2"),
];

/// The names of the releases from 3000 on, one for each number.
const NUMBERED: &str = "neon sodium magnesium aluminium silicon phosphorus sulfur chlorine argon potassium calcium scandium titanium \
    vanadium chromium manganese iron cobalt nickel copper zinc gallium germanium arsenic selenium bromine krypton \
    rubidium strontium yttrium zirconium niobium molybdenum technetium ruthenium rhodium palladium silver cadmium \
    indium tin antimony tellurium iodine xenon cesium barium lanthanum cerium praseodymium neodymium promethium \
    samarium europium gadolinium terbium dysprosium holmium erbium thulium ytterbium lutetium hafnium tantalum \
    tungsten rhenium osmium iridium platinum gold mercury thallium lead bismuth polonium astatine radon francium \
    radium actinium thorium protactinium uranium neptunium plutonium americium curium berkelium californium \
    einsteinium fermium mendelevium nobelium lawrencium rutherfordium dubnium seaborgium bohrium hassium \
    meitnerium darmstadtium roentgenium copernicium nihonium flerovium moscovium livermorium tennessine oganesson";

fn number(name: &Value) -> Result<Option<String>, Error> {
    let name = name
        .as_str()
        .ok_or("'name' argument must be a string")?
        .to_lowercase();
    if let Some((_, number)) = DATED.iter().find(|(dated, _)| *dated == name) {
        return Ok(Some((*number).to_owned()));
    }
    let place = NUMBERED.split(' ').position(|known| known == name);
    Ok(place.map(|place| (3000 + place).to_string()))
}

/// Compares the version that this program behaves as with a named release. Returns `None` if there
/// is no release of that name.
fn compared(cx: &Exec, name: &Value) -> Result<Option<Ordering>, Error> {
    let own = salt_version(cx);
    // The part after the last dot is the patch number, which is ignored.
    let own = own.rsplit_once('.').map_or(own.as_str(), |(own, _)| own);
    Ok(number(name)?.map(|other| version::loose(own, &other)))
}

fn get_release_number(_cx: &Exec, args: GetReleaseNumber) -> Result<Value, Error> {
    Ok(number(&args.name)?.into())
}

fn equal(cx: &Exec, args: Equal) -> Result<Value, Error> {
    Ok((compared(cx, &args.name)? == Some(Ordering::Equal)).into())
}

fn greater_than(cx: &Exec, args: GreaterThan) -> Result<Value, Error> {
    Ok((compared(cx, &args.name)? == Some(Ordering::Greater)).into())
}

fn less_than(cx: &Exec, args: LessThan) -> Result<Value, Error> {
    Ok((compared(cx, &args.name)? == Some(Ordering::Less)).into())
}

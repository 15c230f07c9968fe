//! Names and passwords that other tools stumble over (A-5, O-01, O-02, O-06, O-07).

use mesh_sdk::{Login, Secret, Wish};

use super::super::ground::{Ended, Ground, Stop, demand, departing};

fn logins() -> Vec<String> {
    let mut all: Vec<String> = [
        "-rf",
        "--help",
        "-n",
        "it's",
        "say\"so\"",
        "back\\slash",
        "pct%s%n",
        "%41",
        "a%00b",
        "semi;colon",
        "#hash",
        "jack+jill",
        "jack+cn=evil",
        "a,ou=other",
        "eq=ual",
        "star*",
        "par(en)",
        "(paren",
        "~tilde",
        ">great",
        "nil",
        "on",
        "off",
        "reset",
        "nopass",
        "allkeys",
        "$(id)",
        "`id`",
        "ünï-ß",
        "漢字",
        "\u{1F9FF}",
        "no\u{a0}break",
        "so\u{ad}ft",
        "A",
        "a",
        "1",
        "user",
    ]
    .map(str::to_owned)
    .into();
    all.extend(["sp ace", " lead", "trail ", "line\nbreak", "tab\tin"].map(str::to_owned));
    all.push("x".repeat(1000));
    all.push("ü".repeat(40));
    all
}

fn passwords() -> Vec<String> {
    let mut all: Vec<String> = [
        "p@ss/w:rd?#[%41]&=+{x} '",
        "--help",
        "-",
        "-D",
        "16%d%%41'",
        "a\nb",
        "a\r\nb",
        "\t",
        " ",
        "pass\u{a0}word",
        "so\u{ad}ft77",
        "\u{FF21}bc\u{BC9}",
        "Zu\u{308}rich-9",
        "x\u{1F9FF}y",
        "md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "SCRAM-SHA-256$4096:c2FsdA==$a:b",
        "$2a$11$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "';--\"",
        "\\",
        ">x",
        "#x",
        "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
        "nopass",
        "resetpass",
    ]
    .map(str::to_owned)
    .into();
    all.push(format!("{}X", "a".repeat(72)));
    all.push("x".repeat(1000));
    all.push("漢".repeat(4000));
    all
}

/// What passes the check works with exactly those bytes; what does not is refused before anything is
/// written, naming the field.
async fn judged(g: &Ground<'_>, wish: &Wish, field: &str, shown: &str) -> Result<bool, Stop> {
    let login = wish.login().as_str();
    if let Err(refusal) = g.check(wish) {
        demand(
            refusal.field == field,
            format!("{shown}: refused for `{}`", refusal.field),
        )?;
        demand(
            !refusal.rule.is_empty(),
            format!("{shown}: refused without a rule"),
        )?;
        return Ok(false);
    }
    g.made(wish).await?;
    let lets_in = g.bench.lets_in(login, g.password(wish)).await?;
    demand(lets_in, format!("{shown}: does not let in"))?;
    g.again_changes_nothing(wish).await?;
    g.remove(&departing(wish)).await?;
    demand(
        !g.bench.exists(login).await?,
        format!("{shown}: was not removed"),
    )?;
    Ok(true)
}

pub(super) async fn a5_o01_o02_hostile_names_and_passwords_are_data(g: &Ground<'_>) -> Ended {
    let (mut taken, mut refused) = (0, Vec::new());
    for text in logins() {
        let Ok(login) = Login::new(&text) else {
            continue;
        };
        let wish = g.wish_with("hostile", |p| p.login = login)?;
        // A neighbour whose name is the same but for one letter stays as it is.
        let near = Login::new(&format!("{text}x"));
        let near = near.map_err(|error| Stop::Fail(error.to_string()))?;
        let near = g.wish_with("neighbour", |p| p.login = near)?;
        let has_neighbour = g.check(&near).is_ok();
        if has_neighbour {
            g.made(&near).await?;
        }
        match judged(g, &wish, "login", &format!("login {text:?}")).await? {
            true => taken += 1,
            false => refused.push(text),
        }
        if has_neighbour {
            g.held(&near).await?;
            g.remove(&departing(&near)).await?;
        }
    }
    demand(taken > 20, format!("{taken} taken; refused: {refused:?}"))?;
    for text in passwords() {
        let secret = Some(Secret::from(text.as_str()));
        let wish = g.wish_with("hostile", |p| p.password = secret)?;
        judged(
            g,
            &wish,
            "password",
            &format!("password {:?}…", text.chars().next()),
        )
        .await?;
    }
    Ok(())
}

pub(super) async fn o07_what_no_backend_can_take_is_refused_before_anything_is_written(
    g: &Ground<'_>,
) -> Ended {
    let before = g.bench.writes().await?;
    let passwords: [&[u8]; 4] = [b"\0abc", b"abc\0def", &[0xff, 0xfe], b""];
    for bytes in passwords {
        let wish = g.wish_with("nul", |p| p.password = Some(Secret::new(bytes)))?;
        match g.check(&wish) {
            Err(refusal) if refusal.field == "password" => {}
            other => return super::super::ground::fail(format!("{bytes:?}: {other:?}")),
        }
    }
    demand(g.bench.writes().await? == before, "something was written")
}

//! How a password is changed without a moment in which none fits: two logins that take turns, or two passwords.

use mesh_sdk::{Answer, Difference, Login, MarkSeen, Secret, Wish};

use super::super::bench::Done;
use super::super::ground::{Ended, Ground, Stop, declared, demand, departing, fail};

/// The second login of the consumer `name`: its own password, the same values.
fn second(g: &Ground<'_>, name: &str) -> Result<Wish, Stop> {
    let mut set = Ok(());
    let first = Login::new(name).map_err(|error| Stop::Fail(error.to_string()))?;
    let wish = g.wish_with(&format!("{name}__b"), |p| {
        set = g.set_values(p, g.bench.values(name));
        p.base = Some(first);
    })?;
    set?;
    Ok(wish)
}

async fn lets_in(g: &Ground<'_>, wish: &Wish) -> Result<bool, Stop> {
    let login = wish.login().as_str();
    Ok(g.bench.lets_in(login, g.password(wish)).await?)
}

pub(super) async fn r3_two_logins_of_one_consumer_are_both_held(g: &Ground<'_>) -> Ended {
    let (first, second) = (g.wish("turn")?, second(g, "turn")?);
    g.made(&first).await?;
    g.made(&second).await?;
    g.held(&first).await?;
    demand(lets_in(g, &first).await?, "the first is kept out")?;
    demand(lets_in(g, &second).await?, "the second is kept out")?;
    let crossed = g.bench.lets_in("turn", g.password(&second)).await?;
    demand(!crossed, "the second's password opens the first login")?;
    if g.adapter.capabilities().list {
        both_are_listed(g, &first, &second).await?;
    }
    g.again_changes_nothing(&first).await?;
    g.again_changes_nothing(&second).await?;
    if g.adapter.capabilities().holds_all {
        let answers = g
            .holds_all(&g.cx, &[g.wish("turn")?, self::second(g, "turn")?])
            .await?;
        let held = answers.iter().all(|one| matches!(one, Ok(Answer::Held(_))));
        demand(held, format!("together: {answers:?}"))?;
    }
    match g.adapter.capabilities().disable {
        true => turned(g, &first, &second).await,
        false => turned_without_a_switch(g, &first, &second).await,
    }
}

/// Both carry the consumer's mark, and no seat's.
async fn both_are_listed(g: &Ground<'_>, first: &Wish, second: &Wish) -> Ended {
    let listed = g.list().await?;
    let ours = MarkSeen::OursFor(first.consumer().clone());
    for wish in [first, second] {
        match listed.iter().find(|one| one.login == *wish.login()) {
            Some(one) if one.mark == ours => {}
            other => return fail(format!("{wish:?} is listed as {other:?}")),
        }
    }
    Ok(())
}

/// The first is switched off, and later has its turn again with another password.
async fn turned(g: &Ground<'_>, first: &Wish, second: &Wish) -> Ended {
    let off = g.wish_with("turn", |p| p.enabled = false)?;
    g.made(&off).await?;
    g.held(second).await?;
    demand(!lets_in(g, first).await?, "switched off, the first lets in")?;
    demand(
        lets_in(g, second).await?,
        "without the first, the second is kept out",
    )?;
    g.again_changes_nothing(&off).await?;
    g.again_changes_nothing(second).await?;
    let back = g.wish_with("turn", |p| {
        p.password = Some(Secret::from("planted-turn-next"))
    })?;
    g.made(&back).await?;
    g.held(second).await?;
    demand(
        lets_in(g, &back).await?,
        "in its turn the first is kept out",
    )?;
    demand(!lets_in(g, first).await?, "its earlier password lets in")?;
    demand(
        lets_in(g, second).await?,
        "the second is kept out beside it",
    )?;
    only_the_first(g, &back, second).await
}

/// Where nothing can be switched off, the first goes, and comes again in its turn.
async fn turned_without_a_switch(g: &Ground<'_>, first: &Wish, second: &Wish) -> Ended {
    g.remove(&departing(first)).await?;
    demand(!lets_in(g, first).await?, "removed, the first lets in")?;
    demand(
        lets_in(g, second).await?,
        "without the first, the second is kept out",
    )?;
    g.held(second).await?;
    g.again_changes_nothing(second).await?;
    g.made(first).await?;
    g.held(second).await?;
    only_the_first(g, first, second).await
}

async fn only_the_first(g: &Ground<'_>, first: &Wish, second: &Wish) -> Ended {
    g.remove(&departing(second)).await?;
    demand(!lets_in(g, second).await?, "removed, the second lets in")?;
    demand(
        lets_in(g, first).await?,
        "without the second, the first is kept out",
    )?;
    g.held(first).await?;
    g.again_changes_nothing(first).await?;
    demand(
        !g.bench.exists(second.login().as_str()).await?,
        "the second is there",
    )
}

pub(super) async fn r3_what_either_of_two_logins_made_both_can_use(g: &Ground<'_>) -> Ended {
    const NAME: &str = "turn-data";
    let (first, second) = (g.wish(NAME)?, second(g, NAME)?);
    g.made(&first).await?;
    let left = g.bench.leave_data(NAME, g.password(&first)).await?;
    if left.is_none() {
        return Err(Stop::Skip("the values speak of no data".to_owned()));
    }
    g.made(&second).await?;
    let uses = async |wish: &Wish| {
        let login = wish.login().as_str();
        match g.bench.uses_data(NAME, login, g.password(wish)).await? {
            Some(uses) => Ok(uses),
            None => Err(Stop::Skip("the bench cannot tell who uses data".to_owned())),
        }
    };
    demand(
        uses(&second).await?,
        "the second cannot use what the first made",
    )?;
    demand(uses(&first).await?, "the first cannot use it any more")?;
    g.again_changes_nothing(&first).await?;
    g.again_changes_nothing(&second).await?;
    if g.adapter.capabilities().disable {
        g.made(&g.wish_with(NAME, |p| p.enabled = false)?).await?;
        g.held(&second).await?;
        demand(
            uses(&second).await?,
            "it cannot while the first is switched off",
        )?;
        g.made(&first).await?;
    }
    g.remove(&departing(&second)).await?;
    demand(
        uses(&first).await?,
        "the first cannot after the second has gone",
    )?;
    demand(
        g.bench.has_data(NAME).await?,
        "its data went with the second login",
    )?;
    g.held(&first).await?;
    g.again_changes_nothing(&first).await
}

pub(super) async fn r3_two_passwords_are_valid_together(g: &Ground<'_>) -> Ended {
    const NEXT: &str = "planted-pair-next";
    declared(g.adapter.capabilities().two_passwords, "two_passwords")?;
    let old = g.wish("pair")?;
    g.made(&old).await?;
    let both = g.wish_with("pair", |p| p.second = Some(Secret::from(NEXT)))?;
    differs(g, &both, "one that is asked for is missing").await?;
    g.made(&both).await?;
    let open = async |passwords: [&str; 2]| -> Result<[bool; 2], Stop> {
        let [a, b] = passwords;
        Ok([
            g.bench.lets_in("pair", a).await?,
            g.bench.lets_in("pair", b).await?,
        ])
    };
    let pair = [g.password(&old), NEXT];
    demand(open(pair).await? == [true, true], "not both let in")?;
    g.again_changes_nothing(&both).await?;

    // Taken away or put beside them by hand.
    g.bench.set_password("pair", g.password(&old)).await?;
    differs(g, &both, "one of the two was taken away").await?;
    g.made(&both).await?;
    demand(open(pair).await? == [true, true], "healed, not both let in")?;
    if g.bench.add_password("pair", "a third").await? == Done::Yes {
        differs(g, &both, "there is a third").await?;
        g.made(&both).await?;
    }
    demand(
        !g.bench.lets_in("pair", "a third").await?,
        "the third still lets in",
    )?;
    demand(
        open(pair).await? == [true, true],
        "with the third went another",
    )?;
    g.again_changes_nothing(&both).await?;

    if g.adapter.capabilities().disable {
        let off = g.wish_with("pair", |p| {
            p.second = Some(Secret::from(NEXT));
            p.enabled = false;
        })?;
        g.made(&off).await?;
        demand(
            open(pair).await? == [false, false],
            "switched off, one lets in",
        )?;
        g.again_changes_nothing(&off).await?;
        g.made(&both).await?;
    }

    // The other way round it is the same; then one is taken off.
    let swapped = g.wish_with("pair", |p| {
        p.second = p.password.replace(Secret::from(NEXT));
    })?;
    g.again_changes_nothing(&swapped).await?;
    let new = g.wish_with("pair", |p| p.password = Some(Secret::from(NEXT)))?;
    differs(g, &new, "there is one more than asked for").await?;
    g.made(&new).await?;
    demand(
        open(pair).await? == [false, true],
        "not the new one alone lets in",
    )?;
    g.again_changes_nothing(&new).await
}

/// The password differs, and one of those that are asked for fits: the login is ours.
async fn differs(g: &Ground<'_>, wish: &Wish, why: &str) -> Ended {
    let lost = g.lost(wish).await?;
    let as_told = lost.differences.contains(Difference::Password) && lost.password_fits;
    demand(as_told, format!("{why}: {lost:?}"))
}

//! The trials, in the order of their running. Those that shake the whole server come last.

mod bulk;
mod create;
mod faults;
mod hostile;
mod look;
mod ownership;
mod removal;
mod reverse;
mod secrets;
mod turns;

use futures_util::future::BoxFuture;

use super::ground::{Ended, Ground};

/// One trial. Its name begins with the rule that it holds an adapter to.
pub(super) struct Trial {
    pub(super) name: &'static str,
    pub(super) run: for<'g> fn(&'g Ground<'g>) -> BoxFuture<'g, Ended>,
}

macro_rules! trials {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($(Trial {
            name: stringify!($name),
            run: |ground| Box::pin($module::$name(ground)),
        }),+),+]
    };
}

/// All of them.
pub(super) const ALL: &[Trial] = trials! {
    create:
        a6_a_new_login_is_made_and_held,
        a6_created_twice_is_as_once_and_writes_nothing,
        h1_a_new_password_takes_the_old_one_away,
        h1_new_values_are_granted_and_the_old_ones_taken_back,
        h25_a_wish_that_is_switched_off_is_kept_off,
        a6_a_half_done_login_is_finished,
        a3_what_the_server_refuses_is_told_as_that;
    look:
        h5_absent_is_told,
        o12_another_password_is_told_and_healed,
        h5_one_password_more_is_told_and_healed,
        h5_switched_off_is_told_and_healed,
        o15_missing_rights_are_told_and_healed,
        a7_a_surplus_is_a_loss_on_a_login_of_ours,
        a7_a_surplus_is_a_warning_on_an_adopted_login,
        h18_a_missing_mark_is_told_and_healed,
        o43_a_login_that_any_password_opens_is_told_and_healed,
        h22_without_a_password_presence_and_mark_are_told,
        h13_healthy_looks_write_nothing_and_fail_no_login;
    ownership:
        h18_a_strangers_login_is_told_apart_from_ours,
        h18_a_login_with_our_password_is_ours,
        r4_a_strangers_marked_login_is_never_removed,
        r4_a_damaged_mark_is_no_reason_to_remove,
        h19_reserved_names_are_refused_and_never_touched;
    removal:
        r12_removing_twice_is_success,
        r10_removing_ends_sessions,
        r10_switching_off_ends_sessions_and_keeps_the_login,
        r10_healing_leaves_a_session_in_order_alone,
        r1_a_list_is_whole_and_tells_whose_each_login_is;
    reverse:
        r14_the_canary_is_listed_and_opens_nothing,
        r6_a_login_in_use_is_told,
        r6_an_attempt_on_a_login_that_is_off_is_told,
        h18_what_is_found_can_be_adopted_as_it_stands,
        r5_removing_keeps_data_and_purging_deletes_it,
        r5_data_that_a_login_may_use_is_not_purged;
    turns:
        r3_two_logins_of_one_consumer_are_both_held,
        r3_what_either_of_two_logins_made_both_can_use,
        r3_two_passwords_are_valid_together;
    hostile:
        a5_o01_o02_hostile_names_and_passwords_are_data,
        o07_what_no_backend_can_take_is_refused_before_anything_is_written;
    bulk:
        h16_many_are_made_and_looked_at_together,
        h16_one_bad_wish_stops_no_other,
        h16_each_kind_of_loss_is_told_in_bulk_as_singly;
    faults:
        h7_a_server_that_is_not_there_is_unknown,
        h9_a_server_that_says_nothing_can_be_cut_off,
        o26_a_server_that_stalls_can_be_cut_off,
        h9_a_server_that_hangs_can_be_cut_off_and_answers_later,
        o42_a_connection_cut_anywhere_in_create_is_finished_next_time,
        h7_a_look_that_is_cut_off_is_never_an_answer,
        o18_after_a_restart_all_is_as_before_or_healed,
        h14_a_restart_is_hinted;
    secrets:
        a4_the_admins_connection_carries_no_plain_password,
        s2_nothing_that_came_back_holds_a_secret;
};

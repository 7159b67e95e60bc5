// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The conformance suite: what the object model promises, written once against [`World`].
//!
//! Each case names the decision (D1 …) or the section of `docs/semantics.md` it is about. A case that
//! needs something that a world cannot offer says so, and is counted.

pub mod fixture;

use std::io::Write;

use crate::World;

/// What a case needed and the world does not offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lacking(pub &'static str);

/// How a case that did not fail ended.
pub type Outcome = Result<(), Lacking>;

/// One case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The module it is in.
    pub topic: &'static str,
    /// Its function.
    pub name: &'static str,
    /// Runs it in a fresh world; panics when the world does not conform.
    pub run: fn(&mut dyn World) -> Outcome,
}

macro_rules! suite {
    ($dollar:tt $($topic:ident { $($case:ident)* })*) => {
        $(pub mod $topic;)*

        /// All cases.
        pub const CASES: &[Case] = &[
            $($(Case { topic: stringify!($topic), name: stringify!($case), run: $topic::$case },)*)*
        ];

        /// Makes a `#[test]` of each case: `conformance!(open)` with a function `open` in the same
        /// module that gives a fresh world.
        #[macro_export]
        macro_rules! conformance {
            ($dollar open:ident) => {
                $(mod $topic {
                    $(
                        #[test]
                        fn $case() {
                            $crate::suite::test(stringify!($case), $crate::suite::$topic::$case, super::$dollar open());
                        }
                    )*
                })*
            };
        }
    };
}

suite! { $
    listening {
        port_zero_becomes_a_port
        listening_without_an_address_works
        set_name_chooses_the_address
        a_wildcard_listener_keeps_its_wildcard
        ipv6_works
        an_address_is_taken_once
        the_backlog_is_set_before_listening
        many_clients_are_served
        clients_that_ask_at_once_get_their_own_answer
        a_full_event_queue_pauses_the_listener
        a_listener_survives_a_shortage_of_descriptors
        a_silent_peer_is_dropped_in_time
        a_decision_comes_too_late
        an_unread_request_is_withdrawn_in_time
        a_decision_can_take_its_time
        closing_a_listener_refuses_unread_requests
        a_read_request_outlives_its_listener
        a_read_request_can_be_rejected_without_its_listener
        a_closed_listener_frees_its_address
        listeners_share_an_event_queue
        a_request_can_be_looked_at
    }
    connecting {
        private_data_goes_both_ways
        private_data_of_any_length_arrives
        too_much_private_data_is_refused
        a_reject_is_one_error_event
        nobody_listens
        no_answer_is_an_error_in_time
        a_silent_address_is_an_error_in_time
        no_decision_is_an_error_at_the_client
        the_address_may_come_from_the_info
        both_sides_agree_on_addresses
        enabling_first_is_allowed
        receives_can_be_posted_before_connecting
        connected_comes_once
        receives_of_a_failed_connection_are_cancelled
        a_failed_accept_keeps_the_request
        a_reject_leaves_an_endpoint_without_its_request
        a_request_is_used_once
        an_endpoint_may_go_before_it_accepts
        a_client_goes_before_the_answer
        no_descriptor_to_connect_with
        a_client_dies_at_each_byte_of_its_request
        a_server_dies_at_each_byte_of_its_answer
    }
    events {
        an_empty_queue_says_again
        written_events_are_read_in_order
        writing_needs_the_flag
        a_full_queue_refuses_writes
        odd_writes_are_refused
        odd_attributes_are_refused
        a_wait_takes_its_full_time
        two_units_are_refused
        a_wait_ends_with_the_event
        a_queue_without_a_wait_object_cannot_wait
        errors_keep_their_place
        endpoints_have_their_own_room
        closing_purges_unread_events
    }
    messages {
        messages_of_any_length_arrive
        completions_say_what_they_were
        completion_data_arrives
        segments_gather_and_scatter
        messages_keep_their_order
        messages_wait_for_their_receive
        both_directions_run_at_once
        inject_is_quiet
        selective_completion_reports_what_asks
        truncation_is_an_error_of_that_receive_only
        cancel_takes_one_receive
        cancel_takes_the_oldest
        delivery_complete_waits_for_the_receive
        acknowledgements_meet_their_send
        a_message_without_a_receive_holds_nothing_up
        acknowledgements_wait_for_the_message_in_front
        kept_messages_are_as_others
        kept_messages_are_bounded
        a_full_transmit_queue_says_again
        a_full_receive_queue_says_again
        limits_are_kept
        completion_queues_are_shared_and_split
        one_direction_needs_one_queue
        a_byte_at_a_time_is_enough
        a_narrow_transport_is_enough
    }
    posting {
        more_holds_nothing_up
        more_that_never_comes_is_not_waited_for
        cancel_takes_what_has_not_begun
        a_shutdown_does_not_wait_for_what_is_cancelled
    }
    multi_receive {
        messages_share_a_buffer
        the_threshold_is_an_option
        a_message_without_room_goes_to_the_next
        a_message_without_any_room_is_cut
        messages_that_waited_share_a_buffer
        a_buffer_can_be_cancelled
        the_end_gives_buffers_back
        unread_messages_hold_the_sender_back
        a_selective_queue_hears_of_the_buffer
        endpoints_share_a_buffer
        odd_buffers_are_refused
    }
    shared_receive {
        receives_go_to_whoever_comes_first
        messages_that_wait_take_turns
        long_messages_do_not_mix
        receives_of_the_endpoint_are_refused
        cancel_takes_the_oldest_of_the_context
        closing_gives_receives_back
        an_end_disturbs_no_other_endpoint
        messages_before_an_end_wait_for_receives
        a_receive_fails_with_its_message
        shared_receives_are_as_others
        odd_uses_of_a_context_are_refused
        what_is_left_after_the_end_takes_shared_receives
    }
    thresholds {
        a_wait_ends_with_enough_completions
        a_wait_without_enough_takes_its_time
        a_wait_ends_with_an_error
        a_queue_without_a_condition_ignores_it
    }
    remote_memory {
        reads_and_writes_of_any_length
        completions_say_read_or_write
        a_write_with_data_is_told
        segments_of_both_sides_differ
        inject_write_is_quiet
        operations_keep_their_order
        many_reads_complete_in_order
        a_write_completes_at_its_level
        acknowledgements_of_writes_meet_them
        virtual_addresses_and_keys_of_the_provider
        forbidden_access_ends_its_connection
        a_key_names_one_region
        odd_registrations_are_refused
        the_application_changes_its_memory
        a_region_keeps_its_domain
        closing_a_region_ends_what_uses_it
        unread_completions_hold_the_writer_back
        endpoints_without_the_capability
        odd_requests_are_refused
        reads_take_places_of_the_transmit_queue
        outstanding_reads_fail_once
        a_shutdown_waits_for_reads
        narrow_transports_are_enough
        selective_completion_of_reads_and_writes
    }
    counters {
        counters_count_each_kind
        failures_are_counted_apart
        a_wait_ends_at_its_threshold
        odd_bindings_are_refused
        a_counter_will_do_without_a_queue
    }
    closing {
        shutdown_is_one_event_on_each_side
        both_sides_shut_down
        shutdown_drains_what_was_queued
        data_before_a_shutdown_is_still_received
        empty_messages_before_a_shutdown_are_received
        unreceived_data_holds_the_end_back_for_a_limited_time
        what_came_before_the_end_is_received_after_it
        what_is_left_after_the_end_meets_receives_of_all_kinds
        what_is_left_after_the_end_goes_with_the_endpoint
        pending_receives_are_cancelled_before_the_end
        close_completes_what_is_pending
        a_close_is_a_shutdown_at_the_peer
        after_the_end_nothing_is_taken
        a_shutdown_that_cannot_drain_ends_in_time
        a_peer_dies_at_each_byte_of_a_message
        unacknowledged_sends_fail_once
        a_close_disturbs_nobody_else
        an_endpoint_can_always_be_closed
        close_order
        a_refused_close_leaves_the_queue_alive
        unread_completions_do_not_hold_a_queue
        closed_objects_are_gone
        a_shutdown_without_a_limit_waits
        ends_and_failures_name_their_endpoint
    }
    wrong_use {
        listen_without_an_event_queue
        listen_twice
        bind_a_passive_endpoint_wrongly
        bind_a_foreign_event_queue
        bind_an_endpoint_wrongly
        bind_after_enable
        enable_without_queues
        connect_and_accept_mixed_up
        connect_and_accept_twice
        operations_too_early
        reject_twice
        shutdown_wrongly
        set_name_after_listen
        bind_a_foreign_completion_queue
    }
    hostile {
        nonsense_is_no_request
        a_request_may_come_in_pieces
        an_answer_may_come_in_pieces
        a_peer_goes_at_each_byte_of_its_answer
        a_peer_goes_at_each_byte_of_its_request
        nonsense_is_no_answer
        a_dribbled_request_is_dropped_in_time
        a_dribbled_answer_is_an_error_in_time
        records_behind_the_answer_are_received
        records_behind_the_request_are_received
        a_stream_may_be_split_anywhere
        a_peer_goes_at_each_byte_of_a_message
        what_a_peer_sent_before_it_went_is_received
        a_shutdown_after_a_reset_waits_for_nothing
        what_is_ignored_is_ignored
        broken_records_end_their_connection
        an_enormous_record_is_only_a_number
        our_bytes_are_exact
        a_peer_of_the_other_byte_order
        a_silent_crowd_keeps_nobody_out
        one_wrong_byte_anywhere
    }
}

/// Runs one case as a test: a case whose needs are not met says so on the standard error stream.
pub fn test(name: &str, case: fn(&mut dyn World) -> Outcome, mut world: impl World) {
    if let Err(Lacking(what)) = case(&mut world) {
        // Said even though the test passes, whose output is not shown.
        let _ = writeln!(std::io::stderr(), "not applicable: {name}: {} has no {what}", world.name());
    }
}

/// How many cases passed, and those that a world could not offer everything for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Cases passed.
    pub passed: usize,
    /// Cases not applicable, and what they needed.
    pub lacking: Vec<(&'static str, &'static str)>,
}

/// Runs all cases, each in a fresh world; panics with the first one that fails.
pub fn run_all<W: World>(mut open: impl FnMut() -> W) -> Summary {
    let mut summary = Summary::default();
    for case in CASES {
        match (case.run)(&mut open()) {
            Ok(()) => summary.passed += 1,
            Err(Lacking(what)) => summary.lacking.push((case.name, what)),
        }
    }
    summary
}

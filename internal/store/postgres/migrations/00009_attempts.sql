-- +goose Up
-- The row of a run is its current attempt. An attempt after which the run was queued
-- again is a row of attempts.
alter table runs add column status_message text collate "C";
alter table runs add column attempt_started_at bigint; -- null between attempts, and in rows of earlier releases
alter table runs add column spent_ms bigint not null default 0; -- of the attempts before the current one
alter table runs add column retry_at bigint; -- the run was queued again and may start at this time; null once it has
alter table runs add column isolation text collate "C";
alter table runs add column image_digest text collate "C";
alter table run_specs add column retries text collate "C"; -- null if the definition has none

-- A paused run has ready = 0 until its time has come.
create index runs_paused on runs (retry_at) where status = 'pending' and ready = 0 and retry_at is not null;

create table attempts (
	run_id       text collate "C" not null,
	number       bigint not null, -- the epoch of its claim
	worker_id    text collate "C" not null,
	isolation    text collate "C",
	image_digest text collate "C",
	started_at   bigint not null,
	ended_at     bigint not null,
	reason       text collate "C" not null,
	event        bigint not null, -- the event that ended it
	state        text collate "C", -- checkpoint and version that it left; only the newest is kept
	primary key (run_id, number)
);

update runs set status_message = error where error is not null;
update runs set status_message = 'The run was cancelled by a user.' where status = 'cancelled';
update runs set error = null where status = 'timeout' and error is not null;
update run_specs set retries = (select '{"max":' || max_retries || '}' from runs where id = run_id)
	where run_id in (select id from runs where max_retries > 0 and status in ('pending', 'running'));

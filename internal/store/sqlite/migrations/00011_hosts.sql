-- +goose Up
-- What the worker of each installation offers, as it last recorded it.
create table hosts (
	host       text not null primary key,
	isolations text not null, -- JSON list of names
	frameworks text not null, -- JSON list of names
	labels     text not null, -- JSON object
	seen_at    integer not null -- by the database's clock
) strict, without rowid;

-- The labels that a worker must have to claim the run, as a JSON object; null for any
-- worker.
alter table runs add column placement text;
drop index if exists runs_claimable;
create index runs_claimable on runs (agent_id, priority desc, created_at, id, placement) where status = 'pending' and ready = 1;

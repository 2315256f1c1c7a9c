-- +goose Up
-- How often the files of an organisation were looked through for what nothing
-- names any more; none is zero times.
create table collections (
	org_id text primary key,
	epoch  integer not null,
	holder text not null default '', -- who collects now, or did last
	until  integer not null default 0 -- whose turn that is, by the database's clock
) strict, without rowid;

-- What the next collection may delete of the storage.
create table condemned (
	org_id text not null,
	key    text not null,
	epoch  integer not null,
	since  integer not null,
	primary key (org_id, key)
) strict, without rowid;

-- The versions that somebody asked to keep.
create table kept (
	org_id     text not null,
	version_id text not null,
	created_at integer not null,
	primary key (org_id, version_id)
) strict, without rowid;

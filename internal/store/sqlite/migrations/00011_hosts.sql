-- +goose Up
-- What the worker of each installation offers, as it last recorded it.
create table hosts (
	host       text not null primary key,
	isolations text not null, -- JSON list of names
	frameworks text not null, -- JSON list of names
	labels     text not null, -- JSON object
	seen_at    integer not null -- by the database's clock
) strict, without rowid;

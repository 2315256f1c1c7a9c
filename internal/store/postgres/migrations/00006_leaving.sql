-- +goose Up
-- The runs that were cancelled while a worker had them, which may yet keep their
-- state: until it has, or lets them go, they mount what they did.
create table leaving (
	run_id    text collate "C" not null primary key,
	worker_id text collate "C" not null
);
create index leaving_held on leaving (worker_id);

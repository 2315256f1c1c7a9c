-- +goose Up
-- Who created the run, as "user:" and the user's name or "run:" and a run's ID; null if
-- an earlier release stored it.
alter table runs add column created_by text;

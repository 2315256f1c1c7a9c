-- +goose Up
-- The agent's last message, or the value that it gave, as JSON.
alter table runs add column result text collate "C";

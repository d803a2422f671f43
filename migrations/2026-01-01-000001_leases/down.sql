DROP TABLE lease_event;
DROP TABLE lease_cooldown;
DROP TABLE lease_wish;
DROP TABLE lease;
DROP TABLE lease_instance;

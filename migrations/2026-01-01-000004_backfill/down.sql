DROP TABLE backfill_repo;
DROP TABLE backfill_list;
DROP TABLE backfill_run;

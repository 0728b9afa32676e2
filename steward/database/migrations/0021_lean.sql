-- One index of runs less for each that is made and each that is taken: what nobody has taken in time is found
-- among the queued ones, which `runs_queued` holds.

DROP INDEX runs_unstarted;

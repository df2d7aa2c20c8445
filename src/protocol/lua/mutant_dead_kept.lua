-- mutant_dead_kept: for the tests that must find it: the holds of the dead are not purged.
purge = function() end

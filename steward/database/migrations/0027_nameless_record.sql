-- The append-only record keeps ids and words of the service, and stays when an organisation is erased: names of
-- organisations that were changed are taken out of it. Each engine does so in the file beside this one.
SELECT 1;

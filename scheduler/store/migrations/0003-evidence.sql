-- What was found out about a collision or a wedge in a shared box: a JSON object. A row written before has NULL here.
ALTER TABLE attempts ADD COLUMN evidence TEXT;

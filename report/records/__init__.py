"""The format of records, read strictly: the one thing that measuring and building share."""

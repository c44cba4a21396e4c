module recorder

go 1.26

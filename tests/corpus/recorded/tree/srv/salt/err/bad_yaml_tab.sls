a:
	test.nop: []

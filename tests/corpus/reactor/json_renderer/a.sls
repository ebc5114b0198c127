#!json
{"x": {"local.test.ping": [{"tgt": "m1"}]}}

x: runner.manage.up

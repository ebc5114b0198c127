restart:
  salt.function:
    - name: service.restrat
    - tgt: '*'
    - arg: [nginx]

state.orchestrat:
  salt.runner:
    - kwarg: {mods: web}

known:
  salt.runner:
    - name: jobs.list_jobs_filter

of the tree:
  salt.runner:
    - name: own.anything

several:
  salt.parallel_runners:
    - runners:
        one:
          - name: manage.upp

keys:
  salt.wheel:
    - name: key.acept
    - match: web1

elsewhere:
  salt.function:
    - name: nagios.check
    - tgt: '*'

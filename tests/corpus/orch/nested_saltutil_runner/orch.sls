{% set up = salt['saltutil.runner']('manage.up') %}
a:
  test.show_notification:
    - text: {{ up | join(',') }}
b:
  salt.function:
    - name: saltutil.runner
    - tgt: '*'
    - arg: [state.orchestrate]
    - kwarg: {mods: inner}
c:
  module.run:
    - saltutil.runner: [test.arg, {x: 1}]

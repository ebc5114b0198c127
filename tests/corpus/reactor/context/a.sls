x:
  local.test.arg:
    - tgt: m1
    - arg:
      - "{{ opts.id }}"
      - "{{ grains.os is defined }}"
      - "{{ pillar }}"
      - "{{ salt['test.echo']('echoed') }}"
      - "{{ tag }}"
      - "{{ data | json | replace('"', "'") }}"
      - "{{ saltenv is defined }} {{ env is defined }} {{ sls is defined }} {{ __opts__ is defined }} {{ tpldir is defined }} {{ tplfile is defined }}"

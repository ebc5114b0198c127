{% if grains['os_family'] == 'Plan9' %}
/etc/motd:
  file.manged: []
{% endif %}
{% if grains['os_family'] == 'AIX' %}
port:
  test.nop:
    - name: {{ pillar['port'] }}
{% endif %}

# The whole life of a web server in one orchestration: its files are rendered from pillar, it is started, its pages are
# checked, an event reports the result, and it is stopped again.
{% set web = pillar['web'] %}
{% set url = 'http://' ~ web.host ~ ':' ~ web.port %}

render the files:
  salt.state:
    - tgt: 'edge*'
    - sls: web.files

who is up:
  salt.runner:
    - name: manage.up

start the server:
  salt.state:
    - tgt: 'edge*'
    - sls: web.running
    - require:
      - salt: render the files

wait until it answers:
  salt.function:
    - name: http.wait_for_successful_query
    - tgt: 'edge*'
    - arg:
      - {{ url }}/index.html
    - kwarg:
        wait_for: 5
        request_interval: 0.05
        status: 200
    - require:
      - salt: start the server

# Each page is fetched like a visitor would, and must contain the text from pillar; a result of False fails its step.
{% for site in web.sites %}
fetch {{ site.name }}:
  salt.function:
    - name: cp.get_url
    - tgt: 'edge*'
    - arg:
      - {{ url }}/{{ site.name }}.html
      - {{ web.fetched }}/{{ site.name }}.html
    - kwarg:
        makedirs: True
    - require:
      - salt: wait until it answers

read {{ site.name }}:
  salt.function:
    - name: file.contains
    - tgt: 'edge*'
    - arg:
      - {{ web.fetched }}/{{ site.name }}.html
      - {{ site.text }}
    - require:
      - salt: fetch {{ site.name }}
    - require_in:
      - salt: tell that it works
{% endfor %}

tell that it works:
  salt.runner:
    - name: event.send
    - tag: example/webserver/served
    - data:
        url: {{ url }}
        pages: {{ web.sites | map(attribute='name') | list | json }}

stop the server:
  salt.state:
    - tgt: 'edge*'
    - sls: web.stopped
    - order: last

# An orchestration that notifies people by mail and chat, whether it succeeds or fails.
deploy:
  salt.state:
    - tgt: '*'
    - sls: web
    - pillar: {{ {'broken': pillar.get('broken', False)} | json }}

{% for word, requisite in [('deployed', 'require'), ('not deployed', 'onfail')] %}
mail {{ word }}:
  smtp.send_msg:
    - name: 'Größe und Übersicht: the web is {{ word }}'
    - recipient: admin@example.com
    - subject: The web is {{ word }}
    - profile: mail
    - {{ requisite }}:
      - salt: deploy

chat {{ word }}:
  slack.post_message:
    - channel: '#ops'
    - from_name: Pinch
    - message: The web is {{ word }}
    - {{ requisite }}:
      - salt: deploy
{% endfor %}

{{- define "mq.pipeline.name" -}}
{{ include "mq.name" . }}-pipeline
{{- end }}

{{- /* Labels of driver and executors. */ -}}
{{- define "mq.pipeline.selectorLabels" -}}
app.kubernetes.io/name: metadataquorum-pipeline
app.kubernetes.io/instance: {{ .Release.Name | toYaml }}
{{- end }}

{{- define "mq.pipeline.labels" -}}
{{ include "mq.pipeline.selectorLabels" . }}
app.kubernetes.io/part-of: metadataquorum
{{- end }}

{{- /* Labels that the quorum's network policy allows in its namespace. The quorum's name is the beginning of the name of its bootstrap Service. */ -}}
{{- define "mq.pipeline.clientLabels" -}}
{{- $service := regexFind "^[a-z0-9-]+-bootstrap[.:]" .Values.pipeline.bootstrap }}
{{- if $service }}
metadataquorum.dev/quorum: {{ regexReplaceAll "-bootstrap[.:]$" $service "" | toYaml }}
metadataquorum.dev/role: client
{{- end }}
{{- end }}

{{- /* Labels of driver and executors; those in the values take precedence. */ -}}
{{- define "mq.pipeline.podLabels" -}}
{{- merge (dict) .Values.pipeline.podLabels (include "mq.pipeline.labels" . | fromYaml) (include "mq.pipeline.clientLabels" . | fromYaml) | toYaml }}
{{- end }}

{{- define "mq.pipeline.image" -}}
{{ .Values.pipeline.image.repository }}:{{ .Values.pipeline.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "mq.pipeline.onKubernetes" -}}
{{- if hasPrefix "k8s://" .Values.pipeline.master }}yes{{ end -}}
{{- end }}

{{- define "mq.pipeline.serviceAccount" -}}
{{- if .Values.pipeline.serviceAccount.create -}}
{{ .Values.pipeline.serviceAccount.name | default (include "mq.pipeline.name" .) }}
{{- else -}}
{{ required "pipeline.serviceAccount.name is needed when pipeline.serviceAccount.create is false" .Values.pipeline.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "mq.pipeline.claim" -}}
{{ .Values.pipeline.volume.existingClaim | default (include "mq.pipeline.name" .) }}
{{- end }}

{{- /* Spark's settings. `${env:…}` is Spark's own notation. These settings prevent calls of Spark for which the
       driver has no right: it may only create and delete pods. */ -}}
{{- define "mq.pipeline.settings" -}}
spark.master: {{ .Values.pipeline.master | quote }}
spark.driver.memory: {{ .Values.pipeline.driver.memory }}
spark.ui.enabled: "false"
{{- if include "mq.pipeline.onKubernetes" . }}
spark.authenticate: "true"
{{- /* Spark refuses to encrypt without authentication. */ -}}
{{- if ne (get .Values.pipeline.sparkConf "spark.authenticate" | toString) "false" }}
spark.network.crypto.enabled: "true"
spark.network.crypto.authEngineVersion: "2"
spark.network.crypto.saslFallback: "false"
{{- end }}
spark.driver.host: "${env:POD_IP}"
spark.driver.port: "7078"
spark.driver.blockManager.port: "7079"
spark.blockManager.port: "7079"
spark.executor.instances: {{ int64 .Values.pipeline.executors.count | quote }}
spark.executor.cores: {{ int64 .Values.pipeline.executors.cores | quote }}
spark.executor.memory: {{ .Values.pipeline.executors.memory }}
spark.kubernetes.namespace: {{ .Release.Namespace | toYaml }}
spark.kubernetes.driver.pod.name: "${env:POD_NAME}"
spark.kubernetes.container.image: {{ include "mq.pipeline.image" . | quote }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.pipeline.image.pullPolicy }}
spark.kubernetes.executor.podTemplateFile: /etc/metadataquorum-pipeline/executor.yaml
spark.kubernetes.executor.request.cores: {{ .Values.pipeline.executors.requestCpu | quote }}
spark.kubernetes.executor.disableConfigMap: "true"
spark.kubernetes.driver.ownPersistentVolumeClaim: "false"
spark.kubernetes.driver.reusePersistentVolumeClaim: "false"
spark.kubernetes.driver.service.deleteOnTermination: "false"
{{- end }}
{{- end }}

{{- define "mq.pipeline.securityContext" -}}
{{ include "mq.podSecurityContext" . }}
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
{{- end }}

{{- /* Placement and pull secrets of the pipeline's pods. */ -}}
{{- define "mq.pipeline.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pipeline.priorityClassName }}
priorityClassName: {{ toYaml . }}
{{- end }}
{{- with .Values.pipeline.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pipeline.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.pipeline.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Arguments for TLS; none for a quorum in clear text. */ -}}
{{- define "mq.pipeline.tlsArguments" -}}
{{- with .Values.pipeline.tls }}
{{- if and .commandConfig (not .secret) }}
{{- fail "pipeline.tls.commandConfig is a key of the Secret pipeline.tls.secret: name the Secret" }}
{{- end }}
{{- if .commandConfig }}
- --command-config
- {{ printf "/etc/metadataquorum-tls/%s" .commandConfig | quote }}
{{- else if .secret }}
- --tls
- /etc/metadataquorum-tls
{{- end }}
{{- end }}
{{- end }}

{{- define "mq.pipeline.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.pipeline.tls.secret }}
- name: tls
  mountPath: /etc/metadataquorum-tls
  readOnly: true
{{- end }}
{{- if not .Values.pipeline.to }}
- name: archive
  mountPath: /archive
{{- end }}
{{- end }}

{{- define "mq.pipeline.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.pipeline.tls.secret }}
- name: tls
  secret:
    secretName: {{ toYaml . }}
    defaultMode: 0440
{{- end }}
{{- if not .Values.pipeline.to }}
- name: archive
  persistentVolumeClaim:
    claimName: {{ include "mq.pipeline.claim" . | toYaml }}
{{- end }}
{{- end }}

{{- /* The driver's pod: the same for the Deployment and the CronJob. */ -}}
{{- define "mq.pipeline.driver" -}}
metadata:
  labels:
    {{- include "mq.pipeline.podLabels" . | nindent 4 }}
    app.kubernetes.io/component: driver
  annotations:
    # Changed settings replace the pod.
    checksum/settings: {{ include (print .Template.BasePath "/pipeline-settings.yaml") . | sha256sum }}
    {{- with .Values.pipeline.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "mq.pipeline.serviceAccount" . | toYaml }}
  automountServiceAccountToken: {{ if include "mq.pipeline.onKubernetes" . }}true{{ else }}false{{ end }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: 60
  restartPolicy: {{ if .Values.pipeline.schedule }}Never{{ else }}Always{{ end }}
  {{- with include "mq.pipeline.placement" . }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    {{- include "mq.pipeline.securityContext" . | nindent 4 }}
  containers:
    - name: driver
      image: {{ include "mq.pipeline.image" . | toYaml }}
      imagePullPolicy: {{ .Values.pipeline.image.pullPolicy }}
      args:
        - archive
        - --bootstrap
        - {{ required "pipeline.bootstrap is needed when pipeline.enabled is true: host:port of controllers" .Values.pipeline.bootstrap | quote }}
        {{- with include "mq.pipeline.tlsArguments" . }}
        {{- . | trim | nindent 8 }}
        {{- end }}
        - --to
        - {{ .Values.pipeline.to | default "file:///archive" | quote }}
        {{- if not .Values.pipeline.schedule }}
        - --follow
        - --every
        - {{ .Values.pipeline.everySeconds | quote }}
        {{- end }}
        {{- range .Values.pipeline.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: SPARK_CONF_DIR
          value: /etc/metadataquorum-pipeline
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- with .Values.pipeline.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      resources:
        {{- toYaml .Values.pipeline.driver.resources | nindent 8 }}
      securityContext:
        {{- include "mq.containerSecurityContext" . | nindent 8 }}
      volumeMounts:
        {{- include "mq.pipeline.mounts" . | nindent 8 }}
        - name: settings
          mountPath: /etc/metadataquorum-pipeline
          readOnly: true
  volumes:
    {{- include "mq.pipeline.volumes" . | nindent 4 }}
    - name: settings
      configMap:
        name: {{ include "mq.pipeline.name" . }}
{{- end }}

{{- /* What the schema of the values can't say: each combination that the API server would refuse, or that would have no
       effect, ends the installation with one message. */ -}}

{{- /* Values that have to be there. `helm upgrade --reuse-values` replaces the defaults of this chart with those of the
       one before, which has fewer of them. */ -}}
{{- define "mq.required" -}}
image image.repository image.pullPolicy replicaCount
crds crds.install crds.keep rbac rbac.create serviceAccount serviceAccount.create certManager certManager.enabled
resyncSeconds apiCalls apiCalls.perSecond apiCalls.burst apiCalls.perSecondOfResource apiCalls.burstOfResource logLevel
page page.enabled page.port
metrics metrics.service metrics.monitors metrics.monitors.enabled metrics.monitors.interval
metrics.rules metrics.rules.enabled metrics.rules.runbooks metrics.dashboard metrics.dashboard.enabled
networkPolicy networkPolicy.enabled networkPolicy.apiServerPorts
pipeline pipeline.enabled pipeline.image pipeline.image.repository pipeline.image.pullPolicy pipeline.tls
pipeline.volume pipeline.volume.size pipeline.volume.accessModes pipeline.everySeconds pipeline.master pipeline.driver pipeline.driver.memory
pipeline.executors pipeline.executors.count pipeline.executors.cores pipeline.executors.requestCpu
pipeline.executors.memory pipeline.serviceAccount pipeline.serviceAccount.create
{{- end }}

{{- define "mq.refuseMissing" -}}
{{- $values := .Values }}
{{- range $path := regexSplit "\\s+" (include "mq.required" . | trim) -1 }}
{{- $found := $values }}
{{- range $name := splitList "." $path }}
{{- $found = index $found $name }}
{{- end }}
{{- if kindIs "invalid" $found }}
{{- fail (printf "the value %s is missing. After an earlier version of the chart use `helm upgrade --reset-then-reuse-values` (Helm 3.14 or newer) instead of --reuse-values, which keeps the earlier defaults. If your values set it to null, remove that" $path) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Labels in `labels` that the chart sets itself: twice the same key is no valid manifest. */ -}}
{{- define "mq.refuseLabels" -}}
{{- range $name := .reserved }}
{{- if hasKey ($.labels | default dict) $name }}
{{- fail (printf "%s: %s is set by the chart: remove it" $.field $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Names that occur twice in `entries`, or that are in `reserved`. */ -}}
{{- define "mq.refuseNames" -}}
{{- $known := dict }}
{{- range $each := .entries }}
{{- if has $each.name $.reserved }}
{{- fail (printf "%s: %s is set by the chart: %s" $.field $each.name $.instead) }}
{{- end }}
{{- if hasKey $known $each.name }}
{{- fail (printf "%s: %s occurs twice" $.field $each.name) }}
{{- end }}
{{- $_ := set $known $each.name true }}
{{- end }}
{{- end }}

{{- define "mq.refuseCollisions" -}}
{{- if and .Values.page.enabled (eq (int .Values.page.port) 8080) }}
{{- fail "page.port: 8080 is the port of the operator's probes and metrics: choose another one, such as 8081" }}
{{- end }}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/part-of" }}
{{- include "mq.refuseLabels" (dict "field" "podLabels" "labels" .Values.podLabels "reserved" $own) }}
{{- range $each := list "monitors" "rules" "dashboard" }}
{{- include "mq.refuseLabels" (dict "field" (printf "metrics.%s.labels" $each) "labels" (index $.Values.metrics $each "labels") "reserved" $own) }}
{{- end }}
{{- $set := list "WATCH_NAMESPACE" }}
{{- range $each := list "RESYNC_SECONDS" "API_CALLS_PER_SECOND" "API_BURST" "RESOURCE_CALLS_PER_SECOND" "RESOURCE_BURST" "LOG_LEVEL" "LISTEN" "NAMESPACE" "LEASE" "IDENTITY" }}
{{- $set = append $set (printf "METADATAQUORUM_OPERATOR_%s" $each) }}
{{- end }}
{{- if .Values.page.enabled }}{{ $set = append $set "METADATAQUORUM_OPERATOR_PAGE" }}{{ end }}
{{- include "mq.refuseNames" (dict "field" "env" "entries" .Values.env "reserved" $set "instead" "use the chart's value for it, or remove it") }}
{{- include "mq.refuseNames" (dict "field" "volumes" "entries" .Values.volumes "reserved" (list "tmp") "instead" "choose another name") }}
{{- $volumes := list "tmp" }}
{{- range $each := .Values.volumes }}{{ $volumes = append $volumes $each.name }}{{ end }}
{{- $paths := list "/tmp" }}
{{- range $each := .Values.volumeMounts }}
{{- if not (has $each.name $volumes) }}
{{- fail (printf "volumeMounts: there is no volume %s: add it to volumes" $each.name) }}
{{- end }}
{{- if has (clean $each.mountPath) $paths }}
{{- fail (printf "volumeMounts: something else is mounted at %s: choose another path" $each.mountPath) }}
{{- end }}
{{- $paths = append $paths (clean $each.mountPath) }}
{{- end }}
{{- if and .Values.metrics.service (not (regexMatch "^[a-z][-a-z0-9]*$" (include "mq.name" .))) }}
{{- fail (printf "metrics.service: the name of a Service begins with a letter and has no dots, unlike that of the release %s: use another name for the release, or set metrics.service to false" .Release.Name) }}
{{- end }}
{{- end }}

{{- define "mq.refuseIneffective" -}}
{{- if and .Values.metrics.annotations (not .Values.metrics.service) }}
{{- fail "metrics.annotations are those of the Service: set metrics.service to true, or use podAnnotations" }}
{{- end }}
{{- if and .Values.serviceAccount.annotations (not .Values.serviceAccount.create) }}
{{- fail "serviceAccount.annotations have no effect while serviceAccount.create is false: annotate the existing account, and remove them" }}
{{- end }}
{{- end }}

{{- /* Helm deletes definitions that were in the release and are not any more, unless the ones in the cluster say that they
       are kept. Only with rights on objects without a namespace, which rbac.create needs too. */ -}}
{{- define "mq.refuseToDelete" -}}
{{- if and .Release.IsUpgrade .Values.rbac.create (not .Values.crds.install) }}
{{- range $path, $_ := .Files.Glob "files/*.yaml" }}
{{- $name := ($.Files.Get $path | fromYaml).metadata.name }}
{{- $notes := dig "metadata" "annotations" (dict) (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name) }}
{{- $ours := and (eq (get $notes "meta.helm.sh/release-name") $.Release.Name) (eq (get $notes "meta.helm.sh/release-namespace") $.Release.Namespace) }}
{{- if and $ours (ne (get $notes "helm.sh/resource-policy") "keep") }}
{{- fail (printf "crds.install: false would delete the definition %s, and with it all of its resources, because this release was installed with crds.keep=false: first upgrade with crds.keep=true" $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "mq.refusePipeline" -}}
{{- $pipeline := .Values.pipeline }}
{{- include "mq.refuseLabels" (dict "field" "pipeline.podLabels" "labels" $pipeline.podLabels "reserved" (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component")) }}
{{- include "mq.refuseLabels" (dict "field" "pipeline.podAnnotations" "labels" $pipeline.podAnnotations "reserved" (list "checksum/settings")) }}
{{- include "mq.refuseNames" (dict "field" "pipeline.env" "entries" $pipeline.env "reserved" (list "SPARK_CONF_DIR" "POD_IP" "POD_NAME") "instead" "remove it") }}
{{- range $each := $pipeline.extraArgs }}
{{- if has (regexFind "^--[a-z-]+" $each) (list "--bootstrap" "--to" "--follow" "--every" "--tls" "--command-config") }}
{{- fail (printf "pipeline.extraArgs: %s is set by the chart: use bootstrap, to, everySeconds or tls of pipeline" (regexFind "^--[a-z-]+" $each)) }}
{{- end }}
{{- end }}
{{- if and $pipeline.to $pipeline.volume.existingClaim }}
{{- fail "pipeline.volume.existingClaim has no effect while pipeline.to is set: keep one of them" }}
{{- end }}
{{- if hasPrefix "file:" $pipeline.to }}
{{- fail "pipeline.to: the pod has no volume at this path. Leave it empty to write to pipeline.volume, or name a store such as s3a://BUCKET/FOLDER" }}
{{- end }}
{{- if eq (include "mq.pipeline.serviceAccount" .) (include "mq.serviceAccount" .) }}
{{- fail (printf "pipeline.serviceAccount.name: %s is the operator's account, whose rights the pipeline must not have: choose another name" (include "mq.serviceAccount" .)) }}
{{- end }}
{{- if and $pipeline.serviceAccount.annotations (not $pipeline.serviceAccount.create) }}
{{- fail "pipeline.serviceAccount.annotations have no effect while pipeline.serviceAccount.create is false: annotate the existing account, and remove them" }}
{{- end }}
{{- if and $pipeline.schedule (gt (len (include "mq.pipeline.name" .)) 52) }}
{{- fail (printf "pipeline.schedule: the name of a CronJob has at most 52 characters, and %s has more: use a name of at most 43 characters for the release, or no schedule" (include "mq.pipeline.name" .)) }}
{{- end }}
{{- end }}

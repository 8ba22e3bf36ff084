{{- /* Rights of the operator in a watched namespace: exactly the calls that it makes. Tests run the operator with
       these rights only. */ -}}
{{- define "mq.rules" -}}
- apiGroups: [metadataquorum.dev]
  resources: [metadataquorums, partitionreassignments]
  verbs: [get, list, watch]
- apiGroups: [metadataquorum.dev]
  resources: [metadataquorums/status, partitionreassignments/status]
  verbs: [patch]
# get: an object that lost its label is read by its name.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# patch: edited labels are restored.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
# The StatefulSet controller creates and deletes claims; the operator only annotates and expands them.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, patch]
# delete: a ConfigMap that was made immutable can only be replaced.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# create: server-side apply creates a missing object. delete: a Service with another cluster IP can only be replaced.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# No list: the operator reads only Secrets whose names it knows.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# delete: spec.networkPolicy can be disabled.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# delete: spec.backup can be removed. The CronJob controller creates the Jobs.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
{{- if .Values.certManager.enabled }}
# For spec.tls.issuerRef. cert-manager writes the Secrets. delete: members and identities may be removed.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, list, create, patch, delete]
{{- end }}
{{- end }}

{{- /* Objects without a namespace, read-only: whether the host or the volume of a member is missing, and whether
       the storage class exists. */ -}}
{{- define "mq.clusterRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get, list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get, list, watch]
{{- end }}

{{- /* Leader election: the operator's own Lease. `create` can't be restricted to a name. */ -}}
{{- define "mq.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "mq.name" . | toYaml }}]
  verbs: [get, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}

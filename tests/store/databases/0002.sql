BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE baseline (
	baseline_id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	set_at DATETIME NOT NULL, 
	set_by TEXT NOT NULL, 
	supersedes TEXT, 
	CONSTRAINT pk_baseline PRIMARY KEY (baseline_id), 
	CONSTRAINT fk_baseline_run_id FOREIGN KEY(run_id) REFERENCES run (run_id), 
	CONSTRAINT uq_baseline_supersedes UNIQUE (supersedes), 
	CONSTRAINT fk_baseline_supersedes FOREIGN KEY(supersedes) REFERENCES baseline (baseline_id)
);
CREATE TABLE "plan" (
	plan_id TEXT NOT NULL, 
	result_hash TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	model TEXT NOT NULL, 
	gpu TEXT NOT NULL, 
	backend TEXT NOT NULL, 
	step_time_s DOUBLE NOT NULL, 
	fits BOOLEAN NOT NULL, 
	parts JSON NOT NULL, 
	document JSON NOT NULL, 
	CONSTRAINT pk_plan PRIMARY KEY (plan_id, result_hash)
);
INSERT INTO "plan" VALUES('000000000001','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','chat','2026-03-01 12:00:01.250000','qwen2.5-7b-instruct','rtx-4090','vllm 0.26',0.0171,1,'{"model":"11","precision":"22"}','{"deployment":"name: chat\nprice: 0.69 USD/h  # na\u00efve \u20ac\n","kernels":[{"name":"kernel_0","block":null,"repeat":28,"nodes":["q_proj"],"hbm_bytes":1000.5,"time_s":1e-06,"bound":"memory","evidence":"roofline"},{"name":"kernel_1","block":"decoder","repeat":28,"nodes":["q_proj"],"hbm_bytes":1001.5,"time_s":2e-06,"bound":"memory","evidence":"roofline"},{"name":"kernel_2","block":"decoder","repeat":28,"nodes":["q_proj"],"hbm_bytes":1002.5,"time_s":3e-06,"bound":"memory","evidence":"roofline"}]}');
INSERT INTO "plan" VALUES('000000000002','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','chat','2026-03-01 12:00:02.250000','qwen2.5-7b-instruct','rtx-4090','vllm 0.26',0.0171,1,'{"model":"11","precision":"22"}','{"deployment":"name: chat\nprice: 0.69 USD/h  # na\u00efve \u20ac\n","kernels":[{"name":"kernel_0","block":null,"repeat":28,"nodes":["q_proj"],"hbm_bytes":1000.5,"time_s":1e-06,"bound":"memory","evidence":"roofline"},{"name":"kernel_1","block":"decoder","repeat":28,"nodes":["q_proj"],"hbm_bytes":1001.5,"time_s":2e-06,"bound":"memory","evidence":"roofline"},{"name":"kernel_2","block":"decoder","repeat":28,"nodes":["q_proj"],"hbm_bytes":1002.5,"time_s":3e-06,"bound":"memory","evidence":"roofline"}]}');
CREATE TABLE plan_kernel (
	plan_id TEXT NOT NULL, 
	result_hash TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	block TEXT, 
	repeat INTEGER NOT NULL, 
	hbm_bytes DOUBLE NOT NULL, 
	time_s DOUBLE NOT NULL, 
	bound TEXT NOT NULL, 
	evidence TEXT NOT NULL, 
	CONSTRAINT pk_plan_kernel PRIMARY KEY (plan_id, result_hash, position), 
	CONSTRAINT fk_plan_kernel_plan_id FOREIGN KEY(plan_id, result_hash) REFERENCES "plan" (plan_id, result_hash)
);
INSERT INTO "plan_kernel" VALUES('000000000001','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',0,'kernel_0',NULL,28,1000.5,1.0e-06,'memory','roofline');
INSERT INTO "plan_kernel" VALUES('000000000001','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',1,'kernel_1','decoder',28,1001.5,2.0e-06,'memory','roofline');
INSERT INTO "plan_kernel" VALUES('000000000001','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',2,'kernel_2','decoder',28,1002.5,3.0e-06,'memory','roofline');
INSERT INTO "plan_kernel" VALUES('000000000002','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',0,'kernel_0',NULL,28,1000.5,1.0e-06,'memory','roofline');
INSERT INTO "plan_kernel" VALUES('000000000002','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',1,'kernel_1','decoder',28,1001.5,2.0e-06,'memory','roofline');
INSERT INTO "plan_kernel" VALUES('000000000002','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',2,'kernel_2','decoder',28,1002.5,3.0e-06,'memory','roofline');
CREATE TABLE run (
	run_id TEXT NOT NULL, 
	plan_id TEXT, 
	recorded_at DATETIME NOT NULL, 
	format TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	context JSON NOT NULL, 
	raw BLOB NOT NULL, 
	CONSTRAINT pk_run PRIMARY KEY (run_id)
);
CREATE TABLE sample (
	run_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	statistic TEXT NOT NULL, 
	value DOUBLE NOT NULL, 
	unit TEXT NOT NULL, 
	CONSTRAINT pk_sample PRIMARY KEY (run_id, position), 
	CONSTRAINT fk_sample_run_id FOREIGN KEY(run_id) REFERENCES run (run_id)
);
CREATE TABLE schema_release (
	revision TEXT NOT NULL, 
	release TEXT NOT NULL, 
	CONSTRAINT pk_schema_release PRIMARY KEY (revision)
);
INSERT INTO "schema_release" VALUES('0002','0.1.0');
CREATE TABLE sweep (
	sweep_id TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	status TEXT NOT NULL, 
	rows INTEGER NOT NULL, 
	total INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	seen_at DATETIME NOT NULL, 
	starts INTEGER NOT NULL, 
	asked JSON NOT NULL, 
	answer JSON NOT NULL, 
	CONSTRAINT pk_sweep PRIMARY KEY (sweep_id)
);
INSERT INTO "sweep" VALUES('000000000001','2026-03-01 12:00:00.000000','done',2,2,'aaaaaaaaaaaa','2026-03-01 12:00:00.000000',1,'{"deployment":"name: chat\n","over":["batch=1:2"],"sets":[],"sort":"tok_s","top":20,"cost_model":"calibrated"}','{"error":null,"summary":{"sort":"tok_s","count":2,"errors":0,"fitting":2,"resumed":0,"rows":[],"reasons":[]}}');
CREATE INDEX ix_plan_name ON "plan" (name);
CREATE INDEX ix_plan_created_at ON "plan" (created_at);
CREATE INDEX ix_plan_model_gpu_backend ON "plan" (model, gpu, backend);
CREATE INDEX ix_run_sha256 ON run (sha256);
CREATE INDEX ix_run_plan_id_recorded_at ON run (plan_id, recorded_at);
CREATE INDEX ix_sweep_created_at ON sweep (created_at);
CREATE INDEX ix_plan_kernel_name ON plan_kernel (name);
CREATE INDEX ix_sample_name_statistic ON sample (name, statistic);
CREATE INDEX ix_baseline_run_id ON baseline (run_id);
CREATE INDEX ix_baseline_name_set_at ON baseline (name, set_at);
COMMIT;
